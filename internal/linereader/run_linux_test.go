package linereader

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// blocking is a Runner whose Run blocks.
type blocking struct {
	began, release chan struct{}
	finished       chan struct{}
	goexit         bool
}

func (b *blocking) Run() {
	b.began <- struct{}{}
	<-b.release
	if b.goexit {
		runtime.Goexit()
	}
}

func (b *blocking) Finish() { b.finished <- struct{}{} }

// taker is an Ahead of a pipe that takes lines which begin with "run", and the goroutine that gets the others.
type taker struct {
	*Ahead
	*blocking
	t      *testing.T
	in     *os.File
	others chan string
	ended  chan error
	mayRun chan bool // what take was told of each line that begins with "run"
}

func newTaker(t *testing.T) *taker {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	k := &taker{t: t, in: w, blocking: &blocking{began: make(chan struct{}, 1), release: make(chan struct{}), finished: make(chan struct{}, 100)},
		others: make(chan string, 100), ended: make(chan error, 1), mayRun: make(chan bool, 100)}
	k.Ahead = New(r, 1000).AheadFor(func([]byte) {}, func(line []byte, mayRun bool) (Runner, bool) {
		if !strings.HasPrefix(string(line), "run") {
			return nil, false
		}
		k.mayRun <- mayRun
		if !mayRun {
			return nil, true
		}
		return k.blocking, true
	})
	go func() {
		for {
			line, err := k.Next(context.Background())
			if err != nil {
				k.ended <- err
				return
			}
			k.others <- string(line)
		}
	}()
	t.Cleanup(func() {
		_ = w.Close()
		<-k.Ahead.Ended()
		require.NoError(t, r.Close())
		_ = w.Close()
	})
	k.awaitNext()
	return k
}

// awaitNext waits until the goroutine that gets lines waits for one.
func (k *taker) awaitNext() {
	require.Eventually(k.t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.waiting && len(k.lines) == 0
	}, time.Minute, time.Millisecond)
}

func (k *taker) write(text string) {
	k.t.Helper()
	_, err := io.WriteString(k.in, text)
	require.NoError(k.t, err)
}

func (k *taker) send(text string) {
	k.t.Helper()
	k.awaitNext()
	k.write(text)
}

// A line that is taken is run by the goroutine that reads; what comes meanwhile is read by another one.
func TestAhead_runs_what_is_taken(t *testing.T) {
	k := newTaker(t)
	k.send("run 1\n")
	<-k.began
	require.True(t, <-k.mayRun)
	k.write("other 1\n")
	require.Equal(t, "other 1\n", <-k.others, "it is read while the first one is run")
	k.send("run 2\n")
	require.False(t, <-k.mayRun, "callers at the same time")
	close(k.release)
	<-k.finished
	for range pauseLines - 2 { // two were counted above
		k.send("other\n")
		require.Equal(t, "other\n", <-k.others)
	}
	k.send("run 3\n")
	require.True(t, <-k.mayRun)
	<-k.began
	<-k.finished
	k.send("other 2\nrun 4\n")
	require.Equal(t, "other 2\n", <-k.others)
}

// The end of the stream is noticed while a line is run.
func TestAhead_ends_while_it_runs(t *testing.T) {
	k := newTaker(t)
	k.send("run\n")
	<-k.began
	require.NoError(t, k.in.Close())
	require.ErrorIs(t, <-k.ended, io.EOF)
	<-k.Ahead.Ended()
	close(k.release)
	<-k.finished
}

func TestAhead_is_closed_while_it_runs(t *testing.T) {
	k := newTaker(t)
	k.send("run\n")
	<-k.began
	k.Close()
	require.True(t, errors.Is(<-k.ended, ErrClosed))
	close(k.release)
	<-k.finished
}

// Code of the host may end the goroutine that reads.
func TestAhead_goroutine_ends_in_Run(t *testing.T) {
	k := newTaker(t)
	k.goexit = true
	close(k.release)
	for range 3 {
		k.send("run\n")
		<-k.began
		<-k.finished
		k.send("other\n")
		require.Equal(t, "other\n", <-k.others)
	}
}

// A line behind others is not taken: Next returns all of them in their order. One that was read together with the next one
// is not run.
func TestAhead_takes_in_order(t *testing.T) {
	k := newTaker(t)
	close(k.release)
	k.send("run 1\nrun 2\nrun 3\n")
	require.False(t, <-k.mayRun)
	require.False(t, <-k.mayRun)
	require.True(t, <-k.mayRun, "nothing is behind it")
	<-k.finished
	require.Empty(t, k.others)
}

// What cannot be watched, such as a regular file, has nothing run.
func TestAhead_of_a_file(t *testing.T) {
	name := t.TempDir() + "/lines"
	require.NoError(t, os.WriteFile(name, []byte("run\n"), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	a := New(file, 100).AheadFor(nil, func([]byte, bool) (Runner, bool) { return nil, false })
	require.Nil(t, a.watch)
	<-a.Ended()
}
