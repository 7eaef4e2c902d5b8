package poll

import (
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// watchedPipe is a pipe whose reading end is watched.
type watchedPipe struct {
	*Watch
	r, w  *os.File
	calls chan struct{} // one for each call of ready
}

func watchPipe(t *testing.T, p *Poller) *watchedPipe {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	f := &watchedPipe{r: r, w: w, calls: make(chan struct{}, 1000)}
	f.Watch = p.Watch(r, func() { f.calls <- struct{}{} })
	require.NotNil(t, f.Watch)
	t.Cleanup(func() {
		f.Remove()
		_ = r.Close()
		_ = w.Close()
	})
	return f
}

func (f *watchedPipe) write(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(f.w, "x")
	require.NoError(t, err)
}

func (f *watchedPipe) awaitCall(t *testing.T) {
	t.Helper()
	select {
	case <-f.calls:
	case <-time.After(time.Minute):
		t.Fatal("ready was not called")
	}
}

// settle returns when all calls of ready that were due have begun.
func settle(t *testing.T, p *Poller) {
	t.Helper()
	for range 2 {
		marker := watchPipe(t, p)
		marker.write(t)
		require.True(t, marker.Arm())
		marker.awaitCall(t)
		marker.Remove()
	}
}

func TestWatch(t *testing.T) {
	p := new(Poller)
	keep := watchPipe(t, p)
	t.Run("ready is called once for each Arm", func(t *testing.T) {
		f := watchPipe(t, p)
		require.True(t, f.Arm())
		settle(t, p)
		require.Empty(t, f.calls)
		f.write(t)
		f.awaitCall(t)
		f.write(t)
		settle(t, p)
		require.Empty(t, f.calls)
		require.True(t, f.Arm())
		f.awaitCall(t)
	})
	t.Run("Disarm takes Arm back", func(t *testing.T) {
		f := watchPipe(t, p)
		f.Disarm()
		require.True(t, f.Arm())
		f.Disarm()
		f.write(t)
		settle(t, p)
		require.Empty(t, f.calls)
	})
	t.Run("the end of the file counts", func(t *testing.T) {
		f := watchPipe(t, p)
		require.True(t, f.Arm())
		require.NoError(t, f.w.Close())
		f.awaitCall(t)
	})
	t.Run("Remove ends the watch", func(t *testing.T) {
		f := watchPipe(t, p)
		require.True(t, f.Arm())
		f.Remove()
		f.write(t)
		require.False(t, f.Arm())
		f.Disarm()
		f.Remove()
		settle(t, p)
		require.Empty(t, f.calls)
	})
	t.Run("a file that cannot be watched is refused", func(t *testing.T) {
		f, err := os.Open("poller_linux_test.go")
		require.NoError(t, err)
		defer func() { _ = f.Close() }()
		w := p.Watch(f, func() {})
		require.NotNil(t, w)
		defer w.Remove()
		require.False(t, w.Arm())
		_ = f.Close()
		require.Nil(t, p.Watch(nil, func() {}))
	})
	keep.Remove()
	require.Nil(t, p.set, "nothing is left without watches")
	again := watchPipe(t, p)
	again.write(t)
	require.True(t, again.Arm())
	again.awaitCall(t)
}

// TestPoller_Keep: the goroutine ends when nothing is watched and nothing keeps it.
func TestPoller_Keep(t *testing.T) {
	p := new(Poller)
	p.Keep()
	watchPipe(t, p).Remove()
	kept := p.set
	require.NotNil(t, kept)
	second := watchPipe(t, p)
	require.Same(t, kept, p.set)
	p.Unkeep()
	require.Same(t, kept, p.set, "something is watched")
	second.Remove()
	require.Nil(t, p.set)
	p.Keep()
	watchPipe(t, p).Remove()
	p.Unkeep()
	require.Nil(t, p.set)
}

// TestWatch_calls_are_not_lost: what was written before or after Arm is reported, while
// others come and go.
func TestWatch_calls_are_not_lost(t *testing.T) {
	p := new(Poller)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				f := watchPipe(t, p)
				for i := range 20 {
					if i%2 == 0 {
						f.write(t)
					}
					f.Arm()
					if i%3 == 0 {
						f.Disarm()
						f.Arm()
					}
					if i%2 == 1 {
						f.write(t)
					}
					f.awaitCall(t)
					for len(f.calls) > 0 {
						<-f.calls
					}
					var one [2]byte
					_, _ = f.r.Read(one[:])
				}
				f.Remove()
			}
		})
	}
	all.Wait()
}

func TestWatch_arms_without_allocation(t *testing.T) {
	f := watchPipe(t, new(Poller))
	allocs, _ := testutil.Allocations(1000, func() {
		f.Arm()
		f.Disarm()
	})
	require.Less(t, allocs, 0.5)
}
