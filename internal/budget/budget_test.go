package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// grow grows a share in a new goroutine. The channel gets its error.
func grow(ctx context.Context, s *budget.Share, bytes int) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Grow(ctx, nil, bytes) }()
	return done
}

func requireWaiting(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.Fail(t, "it did not wait", "%v", err)
	default:
	}
}

func TestGrow(t *testing.T) {
	inBubble := func(name string, f func(t *testing.T)) { t.Run(name, func(t *testing.T) { synctest.Test(t, f) }) }
	inBubble("within the limit", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two := b.Share(), b.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 5))
		require.NoError(t, two.Grow(t.Context(), nil, 5))
		require.EqualValues(t, 10, b.Used())
		one.Release()
		one.Release()
		two.Release()
		require.Zero(t, b.Used())
	})
	inBubble("one share exceeds the limit, and others wait in order", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two, three, four := b.Share(), b.Share(), b.Share(), b.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 6))
		require.NoError(t, two.Grow(t.Context(), nil, 6), "it may exceed the limit")
		require.NoError(t, two.Grow(t.Context(), nil, 60))
		second := grow(t.Context(), &three, 6)
		requireWaiting(t, second)
		third := grow(t.Context(), &four, 1)
		requireWaiting(t, third)
		require.NoError(t, two.Grow(t.Context(), nil, 1), "it does not wait behind the others")
		two.Release()
		require.NoError(t, <-second)
		requireWaiting(t, third)
		one.Release()
		require.NoError(t, <-third)
		require.EqualValues(t, 7, b.Used())
	})
	inBubble("half read messages do not wait for each other", func(t *testing.T) {
		b := budget.New(10, nil)
		shares := make([]budget.Share, 5)
		for i := range shares {
			shares[i] = b.Share()
			require.NoError(t, shares[i].Grow(t.Context(), nil, 2))
		}
		var all sync.WaitGroup
		for i := range shares {
			all.Go(func() {
				for range 10 {
					require.NoError(t, shares[i].Grow(t.Context(), nil, 2))
				}
				shares[i].Release()
			})
		}
		all.Wait()
		require.Zero(t, b.Used())
	})
	inBubble("a share that gives up leaves the queue", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two, three := b.Share(), b.Share(), b.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 11))
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		left := grow(ctx, &two, 5)
		requireWaiting(t, left)
		next := grow(t.Context(), &three, 5)
		requireWaiting(t, next)
		cancel(cause)
		require.ErrorIs(t, <-left, cause)
		requireWaiting(t, next)
		one.Release()
		require.NoError(t, <-next)
		require.EqualValues(t, 5, b.Used())
	})
	inBubble("stopped", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two := b.Share(), b.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 11))
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- two.Grow(nil, stop, 5) }() //nolint:staticcheck // it may be nil
		requireWaiting(t, done)
		close(stop)
		require.Error(t, <-done)
	})
	inBubble("taken over", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two, three := b.Share(), b.Share(), b.Share()
		require.NoError(t, two.Grow(t.Context(), nil, 3))
		require.NoError(t, one.Grow(t.Context(), nil, 11))
		two.TakeOver(&one)
		require.EqualValues(t, 11, b.Used())
		one.Release()
		require.EqualValues(t, 11, b.Used())
		done := grow(t.Context(), &three, 5)
		requireWaiting(t, done)
		two.Release()
		require.NoError(t, <-done)
	})
	inBubble("no budget", func(t *testing.T) {
		var b *budget.Budget
		s := b.Share()
		require.NoError(t, s.Grow(t.Context(), nil, 1<<40))
		s.Release()
	})
}

func TestParent(t *testing.T) {
	inBubble := func(name string, f func(t *testing.T)) { t.Run(name, func(t *testing.T) { synctest.Test(t, f) }) }
	inBubble("a child that holds nothing never waits for another", func(t *testing.T) {
		parent := budget.New(10, nil)
		a, b := budget.New(10, parent), budget.New(10, parent)
		greedy, one, two := a.Share(), b.Share(), b.Share()
		require.NoError(t, greedy.Grow(t.Context(), nil, 1000))
		require.NoError(t, one.Grow(t.Context(), nil, 5))
		require.EqualValues(t, 1005, parent.Used())
		second := grow(t.Context(), &two, 5)
		requireWaiting(t, second)
		greedy.Release()
		require.NoError(t, <-second, "room that one child frees is room for all")
		one.Release()
		two.Release()
		require.Zero(t, parent.Used())
	})
}

// Under load a budget never holds more than its limit and one message, every share
// makes progress, and no bytes are left.
func TestBudget_under_load(t *testing.T) {
	const limit, message, children = 1000, 300, 4
	parent := budget.New(2*limit, nil)
	var most atomic.Int64
	var all sync.WaitGroup
	for range children {
		b := budget.New(limit, parent)
		for range 16 {
			all.Go(func() {
				for range 200 {
					ctx, cancel := context.WithCancel(context.Background())
					s := b.Share()
					for held := 0; held < message; held += 50 {
						if rand.N(50) == 0 {
							cancel()
						}
						if s.Grow(ctx, nil, 50) != nil {
							break
						}
						most.Store(max(most.Load(), b.Used()))
					}
					other := b.Share()
					other.TakeOver(&s)
					other.Release()
					cancel()
				}
			})
		}
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(limit+message))
	require.Zero(t, parent.Used())
}

// Holders of much leave room for holders of little, at each level, and all of them stay below the limits.
func TestBudget_Take(t *testing.T) {
	all := budget.New(1000, nil)
	principals := make([]*budget.Budget, 9)
	for i := range principals {
		principals[i] = budget.New(400, all)
		greedy, total := budget.New(400, principals[i]), int64(0)
		for ; greedy.Take(1); total++ {
		}
		require.Positive(t, total, "principal %d", i)
		require.Equal(t, total, principals[i].Used())
		require.LessOrEqual(t, total, int64(200), "half of what its principal may hold")
		require.True(t, budget.New(400, principals[i]).Take(1), "another client of principal %d", i)
	}
	require.LessOrEqual(t, all.Used(), int64(1000))
	held := all.Used()
	require.False(t, principals[0].Take(1000))
	require.Equal(t, held, all.Used(), "what is refused does not count")
	for _, p := range principals {
		p.Return(int(p.Used()))
	}
	require.Zero(t, all.Used())
	require.True(t, (*budget.Budget)(nil).Take(1<<40))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGrowPatiently: a share waits for as long as room is returned that it could use, and not longer.
func TestGrowPatiently(t *testing.T) {
	signs := 0
	patience := budget.Patience{Still: 3 * time.Second, Most: 15 * time.Second, Interval: 200 * time.Millisecond, Sign: func() { signs++ }}
	// Someone else takes and returns room of each budget every two seconds.
	use := func(t *testing.T, b *budget.Budget, until <-chan bool) {
		go func() {
			for {
				s := b.Share()
				_ = s.Grow(t.Context(), nil, 1)
				select {
				case <-time.After(2 * time.Second):
					s.Release()
				case <-until:
					s.Release()
					return
				}
			}
		}()
		synctest.Wait()
	}
	for name, c := range map[string]struct {
		own, parent bool // where someone returns room
		full        bool // the parent has no room, and otherwise the budget of the server
		after       time.Duration
	}{
		"no room returns":                    {false, false, false, 3 * time.Second},
		"no room of the parent returns":      {false, false, true, 3 * time.Second},
		"room of the budget":                 {true, false, false, 15 * time.Second},
		"room of the parent, which is full":  {false, true, true, 15 * time.Second},
		"room of the parent, which has room": {false, true, false, 3 * time.Second},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			limit, all := 100, 1000
			if c.full {
				limit, all = 1000, 100
			}
			parent := budget.New(all, nil)
			b := budget.New(limit, parent)
			most := b.Share()
			require.NoError(t, most.Grow(t.Context(), nil, 90))
			exceeds := b.Share()
			require.NoError(t, exceeds.Grow(t.Context(), nil, 90))
			end := make(chan bool)
			other := parent
			if c.own {
				other = b
			}
			if c.own || c.parent {
				most.Release() // for who returns it
				share := b.Share()
				require.NoError(t, share.Grow(t.Context(), nil, 5))
				defer share.Release()
				use(t, other, end)
			}
			late := b.Share()
			began := time.Now()
			signs = 0
			require.False(t, late.GrowPatiently(t.Context(), nil, 90, patience))
			require.InDelta(t, c.after, time.Since(began), float64(time.Second))
			require.InDelta(t, c.after/patience.Interval, signs, 5)
			close(end)
			exceeds.Release()
			synctest.Wait()
			require.True(t, late.GrowPatiently(t.Context(), nil, 90, patience), "now there is room")
			late.Release()
		})
	}
	testutil.RunInBubble(t, "the end", func(t *testing.T) {
		b := budget.New(10, nil)
		one, two := b.Share(), b.Share()
		require.NoError(t, one.Grow(t.Context(), nil, 11))
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		began := time.Now()
		require.False(t, two.GrowPatiently(t.Context(), stop, 1, patience))
		require.Equal(t, time.Second, time.Since(began))
		one.Release()
	})
}
