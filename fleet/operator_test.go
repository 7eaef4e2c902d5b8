package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// An operator who reaches the store alone sees the fleet as its nodes do, and can drain a node.
func TestOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, RequestDrain(ctx, w.store, "a"), ErrUnknownNode)
	a, b := w.join("a", func(c *Config) { c.Labels, c.Capacity = map[string]string{"zone": "north"}, 20 }), w.join("b")
	servers := someServers(6, 1)
	servers = append(servers, Server{Name: "gpu", Labels: map[string]string{"gpu": "yes"}, Definition: json.RawMessage(`{"n":2}`)})
	generation, err := Apply(ctx, w.store, servers)
	require.NoError(t, err)

	read := func() Status {
		status, applied, err := Read(ctx, w.store)
		require.NoError(t, err)
		require.Len(t, applied, len(status.Servers))
		return status
	}
	count := func(s Status, node string) (n int) {
		for _, one := range s.Servers {
			if one.Node == node {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { s := read(); return count(s, "a")+count(s, "b") == 6 }, 30*time.Second, 20*time.Millisecond)
	status := read()
	require.Equal(t, generation, status.Generation)
	require.Len(t, status.Nodes, 2)
	require.Equal(t, NodeStatus{ID: "a", Life: status.Nodes[0].Life, Address: status.Nodes[0].Address, Labels: map[string]string{"zone": "north"}, Capacity: 20, Weight: status.Nodes[0].Weight, Servers: count(status, "a")}, status.Nodes[0])
	require.Equal(t, "gpu", status.Servers[0].Name)
	require.Contains(t, status.Servers[0].Unplaced, "labels")

	require.NoError(t, RequestDrain(ctx, w.store, "a"))
	require.Eventually(t, func() bool { s := read(); return s.Nodes[0].Draining && count(s, "b") == 6 }, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, a.Close(ctx))
	snapshot, err := w.store.Read(ctx, drainPrefix)
	require.NoError(t, err)
	require.Empty(t, snapshot.Pairs, "the request is gone with the life")
	_ = b
}

// A record that cannot be read hides no other.
func TestOperator_reads_around_what_it_does_not_know(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := Apply(ctx, w.store, someServers(2, 0))
	require.NoError(t, err)
	_, err = w.store.Commit(ctx, store.Txn{Then: []store.Change{store.Put("spec/new", []byte(`{"v":99}`))}})
	require.NoError(t, err)
	status, servers, err := Read(ctx, w.store)
	require.ErrorContains(t, err, "spec/new")
	require.Len(t, status.Servers, 2)
	require.Len(t, servers, 2)
}

func TestMove_of_what_the_fleet_does_not_have(t *testing.T) {
	w := newWorld(t)
	_, err := Apply(t.Context(), w.store, someServers(1, 0))
	require.NoError(t, err)
	require.ErrorIs(t, Move(t.Context(), w.store, "nosuch", "nosuch"), ErrUnknownServer)
}
