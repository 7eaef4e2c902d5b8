package process

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStderrPoller: one goroutine reads many stderrs.
func TestStderrPoller(t *testing.T) {
	type stderr struct {
		r, w *os.File
		tail *StderrTail
		done chan struct{}
		read *polledStderr
	}
	var p stderrPoller
	open := func(t *testing.T) *stderr {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		s := &stderr{r: r, w: w, tail: NewStderrTail(10, nil), done: make(chan struct{})}
		s.read = p.add(r, s.tail, s.done)
		require.NotNil(t, s.read)
		t.Cleanup(func() {
			p.remove(s.read)
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
	t.Run("remove ends the reading", func(t *testing.T) {
		s := open(t)
		p.remove(s.read)
		<-s.done
		p.remove(s.read)
	})
	require.Nil(t, p.set, "nothing is left without streams")
	awaitLine(t, func() *stderr { // a new set begins
		s := open(t)
		_, err := io.WriteString(s.w, "again\n")
		require.NoError(t, err)
		return s
	}(), "again")
}
