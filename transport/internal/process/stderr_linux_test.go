package process

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStderrReader: one goroutine reads many stderrs.
func TestStderrReader(t *testing.T) {
	type stderr struct {
		*stderrReader
		w *os.File
	}
	open := func(t *testing.T) *stderr {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		s := &stderr{readStderr(r, NewStderrTail(10, nil)), w}
		require.NotNil(t, s.watch)
		t.Cleanup(func() {
			s.stop()
			_ = r.Close()
			_ = w.Close()
		})
		return s
	}
	awaitLine := func(t *testing.T, s *stderr, want string) {
		require.Eventually(t, func() bool { return strings.Join(s.tail.Lines(), "|") == want }, time.Minute, time.Millisecond)
	}
	t.Run("ends with the stream, after its last line", func(t *testing.T) {
		s, other := open(t), open(t)
		_, err := io.WriteString(s.w, "first\nlast")
		require.NoError(t, err)
		require.NoError(t, s.w.Close())
		<-s.done
		require.Equal(t, []string{"first", "last"}, s.tail.Lines())
		_, err = io.WriteString(other.w, "other\n")
		require.NoError(t, err)
		awaitLine(t, other, "other")
		_, err = io.WriteString(other.w, "more\n")
		require.NoError(t, err)
		awaitLine(t, other, "other|more")
	})
	t.Run("a flood delays no other stream", func(t *testing.T) {
		flood, other := open(t), open(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			line := []byte(strings.Repeat("x", 1000) + "\n")
			for {
				if _, err := flood.w.Write(line); err != nil {
					return
				}
			}
		}()
		_, err := io.WriteString(other.w, "other\n")
		require.NoError(t, err)
		awaitLine(t, other, "other")
		require.NoError(t, flood.w.Close())
		<-ended
	})
	t.Run("readRest reads to the end without the poller", func(t *testing.T) {
		s := open(t)
		s.watch.Remove() // the poller does not read
		_, err := io.WriteString(s.w, strings.Repeat("x\n", stderrBuffer))
		require.NoError(t, err)
		s.readRest()
		select {
		case <-s.done:
			t.Fatal("the stream has not ended")
		default:
		}
		_, err = io.WriteString(s.w, "last")
		require.NoError(t, err)
		require.NoError(t, s.w.Close())
		s.readRest()
		<-s.done
		lines := s.tail.Lines()
		require.Equal(t, "last", lines[len(lines)-1])
	})
	t.Run("readRest leaves the stream to the poller that reads it", func(t *testing.T) {
		s := open(t)
		s.mu.Lock()
		s.readRest()
		s.mu.Unlock()
		require.NoError(t, s.w.Close())
		<-s.done
	})
	t.Run("stop ends the reading", func(t *testing.T) {
		s := open(t)
		s.stop()
		<-s.done
		s.stop()
	})
}
