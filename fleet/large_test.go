package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
)

// TestRemote_result_room: a large result of a server on another node holds room as one of a local
// server does, until its caller gives it back.
func TestRemote_result_room(t *testing.T) {
	_, a, _ := onB(t, mcptest.Script{}, facade.WithMaxBufferBytes(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	large := json.RawMessage(`{"bytes":200000}`)
	var first, second relay.ResultRoom
	_, err := a.CallToolRaw(ctx, "s/big", large, relay.WithResultRoom(&first))
	require.NoError(t, err)
	short, end := context.WithTimeout(ctx, 500*time.Millisecond)
	defer end()
	_, err = a.CallToolRaw(short, "s/big", large)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for room")
	result, err := a.CallTool(ctx, "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.Equal(t, "x", schema.Text(result), "a short call does not wait")
	first.Release()
	_, err = a.CallToolRaw(ctx, "s/big", large, relay.WithResultRoom(&second))
	require.NoError(t, err)
	second.Release()
	for range 3 {
		result, err = a.CallTool(ctx, "s/big", map[string]any{"bytes": 200000})
		require.NoError(t, err)
		require.Len(t, schema.Text(result), 200000, "it is decoded within the room, and gives it back")
	}
}

// TestRemote_large_results_in_both_directions: nodes that are full of results for each other do not
// wait for each other, whatever the results are compared with their room.
func TestRemote_large_results_in_both_directions(t *testing.T) {
	w := newWorld(t)
	small := func(on string) func(c *Config) {
		return func(c *Config) {
			c.Labels = map[string]string{"on": on}
			c.Options = []facade.Option{facade.WithMaxBufferBytes(1 << 20)}
		}
	}
	nodes := map[string]*Node{"a": w.join("a", small("a")), "b": w.join("b", small("b"))}
	all := someServers(4, 0)
	for i := range all {
		all[i].Labels = map[string]string{"on": []string{"a", "b"}[i%2]}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := nodes["a"].Apply(ctx, all)
	require.NoError(t, err)
	require.NoError(t, nodes["b"].awaitRegistered(ctx, 1, all))
	waitReady(t, nodes["a"])
	waitReady(t, nodes["b"])
	const callers = 24
	failures := make(chan error, 2*callers)
	for _, n := range nodes {
		for i := range callers {
			go func() {
				var failed error
				for _, size := range []int{300_000, 3_000_000} {
					result, err := n.CallTool(ctx, all[i%len(all)].Name+"/big", map[string]any{"bytes": size})
					if err == nil && len(schema.Text(result)) != size {
						err = fmt.Errorf("%d bytes of %d", len(schema.Text(result)), size)
					}
					failed = errors.Join(failed, err)
				}
				failures <- failed
			}()
		}
	}
	for range cap(failures) {
		require.NoError(t, <-failures)
	}
}
