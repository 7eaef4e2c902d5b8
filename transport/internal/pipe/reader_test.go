package pipe

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// countingSpace is a [Space] that says through a channel when it is released.
type countingSpace struct {
	memory   []byte
	held     bool
	acquired int
	released chan struct{} // holds what the test has not seen yet
}

func newCountingSpace(size int) *countingSpace {
	return &countingSpace{memory: make([]byte, size), released: make(chan struct{}, 100)}
}

func (s *countingSpace) Acquire() []byte {
	s.held = true
	s.acquired++
	return s.memory
}

func (s *countingSpace) Release() {
	s.held = false
	s.released <- struct{}{}
}

func TestReader(t *testing.T) {
	type read struct {
		n   int
		err error
	}
	open := func(t *testing.T) (r, w *os.File) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = r.Close()
			_ = w.Close()
		})
		return r, w
	}
	t.Run("holds no memory while the pipe is empty", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("a read from a pipe of Windows waits for data")
		}
		r, w := open(t)
		s, done := newCountingSpace(10), make(chan read, 1)
		in := NewReader(r)
		go func() {
			n, err := in.Read(s)
			done <- read{n, err}
		}()
		<-s.released
		_, err := io.WriteString(w, "text")
		require.NoError(t, err)
		require.Equal(t, read{4, nil}, <-done)
		require.True(t, s.held)
		require.GreaterOrEqual(t, s.acquired, 2)
		require.Equal(t, "text", string(s.memory[:4]))
	})
	t.Run("reads what fits", func(t *testing.T) {
		r, w := open(t)
		_, err := io.WriteString(w, "abcde")
		require.NoError(t, err)
		s, in := newCountingSpace(3), NewReader(r)
		n, err := in.Read(s)
		require.NoError(t, err)
		require.Equal(t, "abc", string(s.memory[:n]))
		n, err = in.Read(s)
		require.NoError(t, err)
		require.Equal(t, "de", string(s.memory[:n]))
	})
	t.Run("ends with the pipe", func(t *testing.T) {
		r, w := open(t)
		require.NoError(t, w.Close())
		n, err := NewReader(r).Read(newCountingSpace(3))
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
	})
	t.Run("ends when the pipe is closed", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("Close does not end a read from a pipe of Windows")
		}
		r, _ := open(t)
		s, done := newCountingSpace(3), make(chan error, 1)
		in := NewReader(r)
		go func() {
			_, err := in.Read(s)
			done <- err
		}()
		<-s.released
		require.NoError(t, r.Close())
		select {
		case err := <-done:
			require.Error(t, err)
			require.False(t, errors.Is(err, io.EOF))
		case <-time.After(time.Minute):
			t.Fatal("the read does not end")
		}
	})
	t.Run("any other stream", func(t *testing.T) {
		s := newCountingSpace(10)
		in := NewReader(strings.NewReader("text"))
		n, err := in.Read(s)
		require.NoError(t, err)
		require.Equal(t, "text", string(s.memory[:n]))
		_, err = in.Read(s)
		require.Equal(t, io.EOF, err)
	})
}

func TestGetBuffer(t *testing.T) {
	for _, size := range []int{MinBuffer, 2 * MinBuffer, 4 * MinBuffer, 8 * MinBuffer} {
		b := GetBuffer(size)
		require.Len(t, b.Bytes, size)
		b.Put()
		require.Len(t, GetBuffer(size).Bytes, size)
	}
	for _, size := range []int{0, 1, MinBuffer - 1, MinBuffer + 1, 16 * MinBuffer} {
		require.Nil(t, GetBuffer(size))
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
