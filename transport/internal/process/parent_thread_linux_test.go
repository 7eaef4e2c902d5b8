package process

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThreadPool(t *testing.T) {
	t.Run("adds_a_thread_when_one_hangs", func(t *testing.T) {
		p := newThreadPool()
		answer, returned := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := p.run(func() error { <-answer; return os.ErrDeadlineExceeded })
			returned <- err
		}()
		require.Eventually(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.threads == 1 && len(p.queue) == 0
		}, waitLimit, checkInterval)
		var children []*parentThread
		for range 40 {
			thread, err := p.run(func() error { return nil })
			require.NoError(t, err)
			children = append(children, thread)
		}
		require.Equal(t, 2, p.threads, "one thread more is enough")
		for _, thread := range children {
			p.release(thread)
		}
		require.Equal(t, 1, p.threads, "the thread that hangs is left")
		close(answer)
		require.ErrorIs(t, <-returned, os.ErrDeadlineExceeded)
		require.Zero(t, p.threads)
	})
	t.Run("keeps_nothing_of_a_start", func(t *testing.T) {
		p := newThreadPool()
		proceed, gone := make(chan struct{}), make(chan struct{}, 4)
		threads := make([]*parentThread, cap(gone))
		var starts sync.WaitGroup
		for i := range threads { // several in the queue at once
			starts.Go(func() {
				environment := new([1 << 10]byte) // a small one shares its memory with others
				runtime.AddCleanup(environment, func(c chan<- struct{}) { c <- struct{}{} }, gone)
				var err error
				threads[i], err = p.run(func() error { <-proceed; environment[0] = 1; return nil })
				require.NoError(t, err)
			})
		}
		require.Eventually(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.queue) == cap(gone)-1
		}, waitLimit, checkInterval)
		close(proceed)
		starts.Wait()
		require.Eventually(t, func() bool { runtime.GC(); return len(gone) == cap(gone) }, waitLimit, checkInterval,
			"the environment of a running server is kept, with its secrets")
		for _, thread := range threads {
			p.release(thread)
		}
	})
	t.Run("threads_end_with_their_last_child", func(t *testing.T) {
		p := newThreadPool()
		var starts sync.WaitGroup
		for range 200 {
			starts.Go(func() {
				thread, err := p.run(func() error { return nil })
				require.NoError(t, err)
				p.release(thread)
			})
		}
		starts.Wait()
		require.Zero(t, p.threads)
	})
}
