package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// heldCatalog is a store that carries out one write of a catalog late.
type heldCatalog struct {
	store.Store
	mu      sync.Mutex
	hold    chan struct{} // what the next write of a catalog waits for; nil: nothing
	waiting chan struct{} // closed when it waits
	done    chan struct{} // closed when it was carried out
}

func (s *heldCatalog) Commit(ctx context.Context, txn store.Txn) (store.Result, error) {
	s.mu.Lock()
	hold := s.hold
	if hold != nil && len(txn.Then) == 1 && strings.HasPrefix(txn.Then[0].Key, records.CatalogPrefix) {
		s.hold = nil
		s.mu.Unlock()
		close(s.waiting)
		<-hold
		defer close(s.done)
		return s.Store.Commit(context.WithoutCancel(ctx), txn)
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, txn)
}

// TestCatalogs_late_record_of_a_former_owner: it is written again by the owner, so that other nodes
// still find the server.
func TestCatalogs_late_record_of_a_former_owner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := &heldCatalog{Store: w.store, waiting: make(chan struct{}), done: make(chan struct{})}
	a := w.join("a", func(c *Config) { c.Store = held })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(1, 0))
	require.NoError(t, err)
	waitReady(t, a)
	b := w.join("b")
	require.NoError(t, b.awaitRegistered(ctx, 1, someServers(1, 0)))
	require.NoError(t, b.WaitReady(ctx, "s0"))
	hold := make(chan struct{})
	held.mu.Lock()
	held.hold = hold
	held.mu.Unlock()
	_, err = a.CallTool(ctx, "s0/add_tool", map[string]any{"name": "new"})
	require.NoError(t, err)
	<-held.waiting
	require.NoError(t, a.Move(ctx, "s0", "b"))
	require.Eventually(t, func() bool {
		_, record, _ := a.routes.current("s0")
		return nodeOf(b, "s0") == "b" && record.Epoch == 2
	}, 20*time.Second, 5*time.Millisecond)
	close(hold)
	<-held.done
	c := w.join("c")
	require.NoError(t, c.awaitRegistered(ctx, 1, someServers(1, 0)))
	_, err = c.CallTool(ctx, "s0/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	require.NoError(t, err)
}

// TestNode_old_definition_resolves_late: it says nothing about the server any longer.
func TestNode_old_definition_resolves_late(t *testing.T) {
	w := newWorld(t)
	release, begun, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var resolve func(string, json.RawMessage) (mcpvisor.ServerSpec, error)
	a := w.join("a", func(c *Config) {
		resolve = c.Resolve
		c.Resolve = func(name string, d json.RawMessage) (mcpvisor.ServerSpec, error) {
			if string(d) != `{"n":1}` {
				return resolve(name, d)
			}
			close(begun)
			<-release
			defer close(ended)
			return mcpvisor.ServerSpec{}, errors.New("the old definition cannot be used")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := someServers(1, 0)
	_, err := Apply(ctx, w.store, all)
	require.NoError(t, err)
	<-begun
	all[0].Definition = json.RawMessage(`{"n":2}`)
	_, err = a.Apply(ctx, all)
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s0"))
	before, _ := a.ServerStatus("s0")
	close(release)
	<-ended
	require.NoError(t, a.Move(ctx, "s0", "a"), "the store has answered since") // a turn of the runner
	for range 20 {
		_, err = a.CallTool(ctx, "s0/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	after, _ := a.ServerStatus("s0")
	require.Equal(t, before.Session.PID, after.Session.PID)
}

func TestNode_epoch_grows_with_a_definition(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := someServers(1, 1)
	_, err := a.Apply(ctx, all)
	require.NoError(t, err)
	waitReady(t, a)
	require.NoError(t, a.Restart(ctx, "s0"))
	waitReady(t, a)
	first := epochOf(t, a, "s0")
	before, _ := a.ServerStatus("s0")
	all[0].Definition = json.RawMessage(`{"n":2}`)
	_, err = a.Apply(ctx, all)
	require.NoError(t, err)
	require.Eventually(t, func() bool { now, _ := a.ServerStatus("s0"); return now.Gen > before.Gen }, 20*time.Second, 5*time.Millisecond)
	require.Greater(t, epochOf(t, a, "s0"), first)
}

// formerProcess writes what a process of node b that was killed a moment ago has left.
func (w *world) formerProcess(ctx context.Context, id, record string) (life string) {
	w.t.Helper()
	lease, err := w.store.Grant(ctx, 20*time.Second)
	require.NoError(w.t, err)
	life = lifeName(lease)
	_, err = w.store.Commit(ctx, store.Txn{Then: []store.Change{store.PutLeased(records.NodeKey(id, life), []byte(record), lease)}})
	require.NoError(w.t, err)
	return life
}

// TestNode_drain_of_a_former_process: a request to drain it is not for the next one.
func TestNode_drain_of_a_former_process(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.formerProcess(ctx, "a", `{"v":1}`)
	require.NoError(t, RequestDrain(ctx, w.store, "a"))
	a := w.join("a")
	_, err := a.Apply(ctx, someServers(1, 0))
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s0"), "a node that drains takes no server")
	require.NoError(t, RequestDrain(ctx, w.store, "a"))
	require.NoError(t, func() error {
		select {
		case <-a.runner.Drained():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}(), "one for this process is")
}

// TestPeers_two_lives_of_a_node: sessions to the address of a former process do not disturb those to the
// present one.
func TestPeers_two_lives_of_a_node(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := w.join("a")
	w.join("b", func(c *Config) { c.Labels = map[string]string{"on": "b"} })
	on := map[string]string{"on": "b"}
	_, err := a.Apply(ctx, []Server{{Name: "s", Labels: on, Definition: json.RawMessage(`{}`)}, {Name: "old", Labels: map[string]string{"on": "nowhere"}, Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s"))
	life := w.formerProcess(ctx, "b", `{"v":1,"address":"127.0.0.1:9"}`)
	_, err = w.store.Commit(ctx, store.Txn{Then: []store.Change{store.Put(records.PlaceKey("old"), fmt.Appendf(nil, `{"v":1,"node":"b","life":%q,"epoch":1}`, life))}})
	require.NoError(t, err)
	tries := func() (n int) {
		a.peers.mu.Lock()
		defer a.peers.mu.Unlock()
		for key, at := range a.peers.byAddress {
			if key[1] == "127.0.0.1:9" {
				n += len(at.sessions)
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return tries() > 0 }, 20*time.Second, time.Millisecond)
	for range 200 {
		_, err := a.CallTool(ctx, "s/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	require.Positive(t, tries())
}

// TestNode_keeps_nothing_of_removed_servers.
func TestNode_keeps_nothing_of_removed_servers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.scripts["x"] = mcptest.Script{}
	a := w.join("a")
	b := w.join("b", func(c *Config) { c.Labels = map[string]string{"on": "b"} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 3 {
		all := []Server{{Name: fmt.Sprintf("x%d", i), Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)}}
		generation, err := b.Apply(ctx, all)
		require.NoError(t, err)
		require.NoError(t, a.awaitRegistered(ctx, generation, all))
		require.NoError(t, a.WaitReady(ctx, all[0].Name))
	}
	_, err := b.Apply(ctx, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		snapshot, err := w.store.Read(ctx, records.CatalogPrefix)
		require.NoError(t, err)
		a.routes.mu.RLock()
		defer a.routes.mu.RUnlock()
		held := 0
		for _, at := range a.routes.byName {
			if at.session != nil || at.remote != nil {
				held++
			}
		}
		return len(a.Servers()) == 0 && len(b.Servers()) == 0 && held == 0 && len(snapshot.Pairs) == 0
	}, 20*time.Second, 5*time.Millisecond)
}
