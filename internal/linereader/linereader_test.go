package linereader

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := "a\n\n \r\nb\r\n" + long + "\n" + long + "x\nc\nnever ended"
	for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		r := New(from, len(long)+1)
		for _, want := range []string{"a\n", "b\r\n", long + "\n", "", "c\n"} {
			line, err := r.Next()
			if want == "" {
				require.ErrorIs(t, err, ErrTooLong)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, string(line))
		}
		_, err := r.Next()
		require.ErrorIs(t, err, io.EOF)
	}
}

// Lines are read ahead in bounded memory, in their order, and the end is noticed without a reader.
func TestAhead(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "%d %s\n", i, strings.Repeat("x", i))
	}
	text.WriteString(strings.Repeat("y", 2000) + "\n")
	a := New(strings.NewReader(text.String()), 1500).Ahead(nil)
	<-a.Ended()
	for i := range 1000 {
		line, err := a.Next(t.Context())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(line), fmt.Sprint(i, " ")))
	}
	_, err := a.Next(t.Context())
	require.ErrorIs(t, err, ErrTooLong)
	_, err = a.Next(t.Context())
	require.ErrorIs(t, err, io.EOF)

	in, out := io.Pipe()
	a = New(in, MaxAhead).Ahead(nil)
	written := make(chan int)
	go func() {
		n := 0
		for ; n < 100; n++ {
			if _, err := io.WriteString(out, strings.Repeat("x", 1<<20-1)+"\n"); err != nil {
				break
			}
		}
		written <- n
	}()
	_, err = a.Next(t.Context())
	require.NoError(t, err)
	a.Close()
	_, err = a.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	<-a.Ended()
	require.NoError(t, in.Close())
	require.LessOrEqual(t, <-written, 6, "more was read than there is room for")
}

// Without a reader of lines, those that there is no room for are refused, and the end is noticed.
func TestAhead_refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		line := strings.Repeat("x", 1<<20-1) + "\n"
		var refused int
		began := time.Now()
		a := New(strings.NewReader(strings.Repeat(line, n)), MaxAhead).Ahead(func([]byte) { refused++ })
		<-a.Ended()
		require.Equal(t, stallTimeout, time.Since(began), "all of them together")
		require.Equal(t, n-2, refused)
		for range 2 {
			got, err := a.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, line, string(got))
		}
		_, err := a.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
	})
}

// The end of a context ends a wait, and the next one gets the line.
func TestAhead_context_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		a := New(in, MaxAhead).Ahead(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() {
			_, _ = io.WriteString(out, "late\n")
			_ = out.Close()
		}()
		line, err := a.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, "late\n", string(line))
		_, err = a.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
	})
}
