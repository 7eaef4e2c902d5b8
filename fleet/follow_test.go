package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// TestNode_a_move_starts_a_server_once: many events tell of a move, and one session begins.
func TestNode_a_move_starts_a_server_once(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := []*Node{w.join("a"), w.join("b"), w.join("c")}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := nodes[0].Apply(ctx, someServers(3, 3))
	require.NoError(t, err)
	waitReady(t, nodes[0])
	for i := range 15 {
		for _, s := range nodes[0].Servers() {
			require.NoError(t, Move(ctx, w.store, s, nodes[i%3].ID()))
			epoch := epochOf(t, nodes[0], s)
			require.EqualValues(t, 1, epoch&(1<<epochBits-1), "incarnation of placement %d", epoch>>epochBits)
		}
	}
}

// TestMove_to_a_former_life: a place that names a life which has ended is not where the server runs.
func TestMove_to_a_former_life(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.join("a")
	w.join("b")
	former := store.Put(records.PlaceKey("s"), []byte(`{"v":1,"node":"b","life":"ffff","epoch":1}`))
	_, err := w.store.Commit(ctx, store.Txn{Then: []store.Change{former}})
	require.NoError(t, err)
	_, err = Apply(ctx, w.store, []Server{{Name: "s", Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, Move(ctx, w.store, "s", "b"))
	status, _, err := Read(ctx, w.store)
	require.NoError(t, err)
	require.Equal(t, "b", status.Servers[0].Node)
}

// TestNode_leaves_servers_of_the_program: what the program registers while the fleet registers its own
// servers stays.
func TestNode_leaves_servers_of_the_program(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	slow := make(chan error, 1)
	go func() { // the next registration waits for this one
		slow <- a.Client.Apply(ctx, []mcpvisor.ServerSpec{{Name: "slow", Stdio: mcptest.Stdio(mcptest.Script{StartDelay: time.Second})}}, facade.KeepOthers)
	}()
	require.Eventually(t, func() bool { _, ok := a.ServerStatus("slow"); return ok }, 20*time.Second, time.Millisecond)
	a.mu.Lock()
	changed := a.changed
	a.mu.Unlock()
	a.register() // as any change of the fleet does
	require.Eventually(t, func() bool { return len(a.dirty) == 0 }, 20*time.Second, time.Millisecond)
	require.NoError(t, a.Register(ctx, mcpvisor.ServerSpec{Name: "own", StartSupervised: true, InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, <-slow)
	<-changed
	require.Subset(t, a.Servers(), []string{"own", "slow"})
}

// TestNode_Close_again returns when the node has ended, as the first one does.
func TestNode_Close_again(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join("a")
	ctx := context.Background()
	_, err := a.Apply(ctx, someServers(3, 3))
	require.NoError(t, err)
	waitReady(t, a)
	ended := make(chan struct{})
	go func() {
		_ = a.Close(ctx)
		close(ended)
	}()
	require.Eventually(t, a.closed.Load, 20*time.Second, time.Microsecond)
	brief, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorContains(t, a.Close(brief), "which is ending")
	require.NoError(t, a.Close(ctx))
	snapshot, err := w.store.Read(ctx, records.NodesPrefix)
	require.NoError(t, err)
	require.Empty(t, snapshot.Pairs, "its lease is given back")
	<-ended
}

// TestNode_Apply_that_is_replaced returns, although its server is never registered.
func TestNode_Apply_that_is_replaced(t *testing.T) {
	w := newWorld(t)
	resolving := make(chan struct{})
	a := w.join("a", func(c *Config) {
		resolve, first := c.Resolve, true
		c.Resolve = func(name string, d json.RawMessage) (mcpvisor.ServerSpec, error) {
			if !first {
				<-resolving
			}
			first = false // Apply checks the definition first
			return resolve(name, d)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := a.Apply(ctx, someServers(1, 0))
		done <- err
	}()
	require.Eventually(t, func() bool { s, _, err := Read(ctx, w.store); return err == nil && len(s.Servers) == 1 }, 20*time.Second, 5*time.Millisecond)
	_, err := Apply(ctx, w.store, nil)
	require.NoError(t, err)
	require.NoError(t, <-done)
	close(resolving)
}

// TestStatus_nodes are sorted by id, and a node with two lives is the newer one.
func TestStatus_nodes(t *testing.T) {
	w := newWorld(t)
	w.formerProcess(t.Context(), "c", `{"v":1}`)
	w.formerProcess(t.Context(), "b", `{"v":1}`)
	w.join("b")
	a := w.join("a")
	require.Eventually(t, func() bool {
		nodes := a.Status().Nodes
		return len(nodes) == 3 && nodes[0].ID == "a" && nodes[1].ID == "b" && nodes[1].Address != "" && nodes[2].ID == "c"
	}, 20*time.Second, 5*time.Millisecond)
}
