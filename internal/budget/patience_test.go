package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/budget"
)

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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
	t.Run("the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
	})
}
