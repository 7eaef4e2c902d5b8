package process

import (
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParentThread(t *testing.T) {
	t.Run("one thread starts all children", func(t *testing.T) {
		var p parentThread
		threads := make(map[int]bool)
		var starts sync.WaitGroup
		for range 40 {
			starts.Go(func() {
				require.NoError(t, p.run(func() error {
					threads[unix.Gettid()] = true
					_, _ = unix.Poll(nil, 1) // meanwhile other threads run goroutines; a signal may cut it short
					return nil
				}))
			})
		}
		starts.Wait()
		require.Len(t, threads, 1)
		ended := p.ended
		for i := range 40 {
			select {
			case <-ended:
				require.Fail(t, "the thread has ended before its children", "%d of them", 40-i)
			default:
			}
			p.release()
		}
		<-ended
	})
	t.Run("a failed start is no child", func(t *testing.T) {
		var p parentThread
		require.ErrorIs(t, p.run(func() error { return os.ErrDeadlineExceeded }), os.ErrDeadlineExceeded)
		require.Zero(t, p.users)
		<-p.ended
	})
	t.Run("keeps nothing of a start", func(t *testing.T) {
		var p parentThread
		proceed, gone := make(chan struct{}), make(chan struct{}, 4)
		var starts sync.WaitGroup
		for range cap(gone) {
			starts.Go(func() {
				environment := new([1 << 10]byte) // a small one shares its memory with others
				runtime.AddCleanup(environment, func(c chan<- struct{}) { c <- struct{}{} }, gone)
				require.NoError(t, p.run(func() error { <-proceed; environment[0] = 1; return nil }))
			})
		}
		close(proceed)
		starts.Wait()
		require.Eventually(t, func() bool { runtime.GC(); return len(gone) == cap(gone) }, waitLimit, checkInterval,
			"the environment of a running server is kept, with its secrets")
		for range cap(gone) {
			p.release()
		}
	})
	t.Run("ends with its last child", func(t *testing.T) {
		var p parentThread
		var starts sync.WaitGroup
		for range 200 {
			starts.Go(func() {
				require.NoError(t, p.run(func() error { return nil }))
				p.release()
			})
		}
		starts.Wait()
		require.Zero(t, p.users)
		require.Nil(t, p.jobs)
	})
}
