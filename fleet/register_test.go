package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A server that is removed while the node follows an earlier removal is gone from it, too.
func TestNode_follows_removals(t *testing.T) {
	t.Parallel()
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

// The program of a node is told what was applied before servers are registered by it, and before Join
// returns.
func TestNode_configured(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Apply(ctx, w.store, someServers(1, 0), WithGateway(json.RawMessage(`{"n": 1}`)))
	require.NoError(t, err)
	type told struct {
		gateway    string
		names      []string
		registered bool // a server of it, when the program was told
	}
	var joined atomic.Pointer[Node]
	var all []told
	var mu sync.Mutex
	n := w.join("a", func(c *Config) {
		c.Configured = func(gateway json.RawMessage, servers []Server) {
			one := told{gateway: string(gateway)}
			for _, s := range servers {
				one.names = append(one.names, s.Name)
				one.registered = one.registered || joined.Load() != nil && s.Name == "s1" && slices.Contains(joined.Load().Servers(), s.Name)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, one)
		}
	})
	last := func() told {
		mu.Lock()
		defer mu.Unlock()
		return all[len(all)-1]
	}
	require.Equal(t, told{gateway: `{"n":1}`, names: []string{"s0"}}, last(), "before Join returns")
	joined.Store(n)
	require.JSONEq(t, `{"n":1}`, string(n.Status().Gateway))

	_, err = Apply(ctx, w.store, someServers(2, 0), WithGateway(json.RawMessage(`{"n": 2}`)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return slices.Contains(n.Servers(), "s1") }, 20*time.Second, time.Millisecond)
	require.Equal(t, told{gateway: `{"n":2}`, names: []string{"s0", "s1"}}, last(), "before the server is registered")

	_, err = n.Apply(ctx, someServers(1, 0))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(last().names) == 1 }, 20*time.Second, time.Millisecond)
	require.Equal(t, told{gateway: `{"n":2}`, names: []string{"s0"}}, last(), "an Apply without it leaves it as it is")
	_, err = Apply(ctx, w.store, someServers(1, 0), WithGateway(nil))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return last().gateway == "" }, 20*time.Second, time.Millisecond)
	status, _, err := Read(ctx, w.store)
	require.NoError(t, err)
	require.Nil(t, status.Gateway)
}

// A server that a node gives up, as one whose program is missing there, is left to another node, and
// the node can reach it there. If no node can run it, each says why.
func TestNode_leaves_what_it_cannot_run(t *testing.T) {
	w := newWorld(t)
	missing := func(name string) (mcpvisor.ServerSpec, error) {
		return mcpvisor.ServerSpec{Name: name, Stdio: &mcpvisor.Stdio{Command: "no-such-program"}}, nil
	}
	a := w.join("a", func(c *Config) {
		c.Resolve = func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) { return missing(name) }
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(1, 0))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		err := a.unable("s0")
		return err != nil && a.Status().Servers[0].Node == ""
	}, 20*time.Second, time.Millisecond)
	require.ErrorContains(t, a.unable("s0"), `command "no-such-program" not found`)

	w.join("b")
	require.NoError(t, a.WaitReady(ctx, "s0"))
	require.Equal(t, "b", nodeOf(a, "s0"))
	_, err = a.CallTool(ctx, "s0/echo", map[string]any{"text": "x"})
	require.NoError(t, err)

	// Another definition is tried again.
	_, err = a.Apply(ctx, []Server{{Name: "s0", Labels: map[string]string{"on": "nowhere"}, Definition: json.RawMessage(`{"n":2}`)}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return a.unable("s0") == nil }, 20*time.Second, time.Millisecond)
}

// aloneStore shows a node that joins no other.
type aloneStore struct{ store.Store }

func (s aloneStore) Read(ctx context.Context, prefix string) (store.Snapshot, error) {
	if prefix == records.NodesPrefix {
		return store.Snapshot{Revision: 1}, nil
	}
	return s.Store.Read(ctx, prefix)
}

// A node that was never reached says why: here its certificate is of another authority. It has joined when no other
// node could be reached.
func TestNode_says_why_another_cannot_be_reached(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	a := w.join("a")
	other.store = aloneStore{w.store}
	b := other.join("b", func(c *Config) { c.Labels = map[string]string{"on": "b"} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.Apply(ctx, []Server{{Name: "s0", Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, b.WaitReady(ctx))
	require.Eventually(t, func() bool {
		i := slices.IndexFunc(a.Status().Nodes, func(n NodeStatus) bool { return strings.Contains(n.Unreachable, "certificate") })
		return i >= 0 && a.Status().Nodes[i].ID == "b"
	}, 20*time.Second, 5*time.Millisecond)
}
