package form

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	lines := NewLines(readerOf(strings.NewReader("one\r\n\nthree")))
	for _, want := range []string{"one", ""} {
		line, err := lines.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	line, err := lines.Read(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "three", line)
}

// The line that is typed after a question was withdrawn answers the next one, if that is shown
// already, and is dropped otherwise.
func TestLines_withdrawn_question(t *testing.T) {
	in, feed := io.Pipe()
	lines := NewLines(readerOf(in))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	withdraw := func() {
		_, err := lines.Read(ended)
		require.ErrorIs(t, err, context.Canceled)
	}
	withdraw()
	withdraw()
	lines.Discard()
	_, err := io.WriteString(feed, "answer\n")
	require.NoError(t, err)
	line, err := lines.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "answer", line)

	withdraw()
	_, err = io.WriteString(feed, "late\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(lines.pending) == 1 }, time.Minute, time.Millisecond)
	lines.Discard()
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(feed, "next\n")
		written <- err
	}()
	line, err = lines.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "next", line)
	require.NoError(t, <-written)
	require.NoError(t, feed.Close())
	_, err = lines.Read(t.Context())
	require.ErrorIs(t, err, io.EOF)
}

func readerOf(in io.Reader) func() (string, error) {
	return func() (string, error) { return ReadLine(in) }
}
