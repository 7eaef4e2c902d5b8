package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A server that is removed while the node follows an earlier removal is gone from it, too.
func TestNode_follows_removals(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var joined atomic.Pointer[Node]
	n := w.join("a", func(c *Config) {
		c.Resolve = func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) {
			// Between the removals of "first" and of "second": the former is being ended.
			for began := time.Now(); name == "new" && joined.Load() != nil && slices.Contains(joined.Load().Servers(), "first") && time.Since(began) < time.Second; {
				time.Sleep(50 * time.Microsecond)
			}
			return mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(mcptest.Script{})}, nil
		}
	})
	joined.Store(n)
	for round := range 5 {
		definition := json.RawMessage(`{"round":` + strconv.Itoa(round) + `}`)
		_, err := n.Apply(ctx, []Server{{Name: "first", Definition: definition}, {Name: "second", Definition: definition}})
		require.NoError(t, err)
		waitReady(t, n)
		_, err = Apply(ctx, w.store, []Server{{Name: "new", Definition: definition}})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return slices.Equal(n.Servers(), []string{"new"}) }, 20*time.Second, time.Millisecond, "round %d", round)
	}
}
