//go:build linux

package fleettest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

// TestRollingRestart is line 6 of the table in docs/fleet.md: each node in turn drains, leaves, and joins again as a new process.
// No call that waits for its server fails.
func TestRollingRestart(t *testing.T) {
	f := startReady(t, Options{})
	patient := callOptions{Timeout: 30 * time.Second, Wait: true}
	for _, id := range []string{"a", "b", "c"} {
		n := f.Nodes[id]
		for other, o := range f.Nodes {
			if other != id {
				o.load("patient", f.Names(), patient)
			}
		}
		begun := boottime.Now()
		must[any](n, "drain", nil)
		t.Logf("node %s has drained within %v", id, (boottime.Now() - begun).Round(time.Millisecond))
		n.Leave()
		n.Start()
		f.answers(n, "after the restart of "+id, time.Minute)
		for other, o := range f.Nodes {
			if other != id {
				l := o.unload("patient")
				t.Logf("calls of %s during the restart of %s: %v", other, id, l)
				require.Zero(t, l.Failed(), "%v %v", l, l.Samples)
			}
		}
	}
}

// TestCatalog is line 10 of the table in docs/fleet.md: a tool that a server adds is listed by every node within a second, and no
// node lists the tools of a server for longer than a second after the lease of its owner has ended.
func TestCatalog(t *testing.T) {
	f := Start(t, Options{TTL: ttl(), Labels: true})
	pinned := Server{Name: "pinned", Exclusive: true, Labels: map[string]string{"node": "a"}}
	f.Apply(append(servers(), pinned))
	a := f.Nodes["a"]
	f.answers(a, "after the start", time.Minute)
	for _, n := range f.Nodes {
		_, err := ask[time.Duration](n, "tool", toolCommand{"pinned/" + toolCall, true, 20 * time.Second})
		require.NoError(t, err)
	}
	c := must[Call](a, "call", callCommand{"pinned", callOptions{Tool: toolGrow, Timeout: 20 * time.Second, Wait: true}})
	require.Equal(t, outcomeResult, c.Outcome, c.Error)
	for id, n := range f.Nodes {
		within(t, "node "+id+" lists the new tool", must[time.Duration](n, "tool", toolCommand{"pinned/" + toolGrown, true, 20 * time.Second})-c.Ended, time.Second)
	}

	s, err := etcd.Open(etcd.Config{Endpoints: []string{f.Etcd[0].Endpoint}})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	snapshot, err := s.Read(t.Context(), "nodes/a/")
	require.NoError(t, err)
	require.Len(t, snapshot.Pairs, 1)
	a.Kill()
	ended := removed(t, s, snapshot)
	for _, id := range []string{"b", "c"} {
		within(t, "node "+id+" no longer lists the tools", must[time.Duration](f.Nodes[id], "tool", toolCommand{"pinned/" + toolCall, false, 20 * time.Second})-ended, time.Second)
	}
	a.Start()
	f.answers(f.Nodes["b"], "after the restart", time.Minute)
}

// removed waits until the one key of a snapshot is removed, and returns when.
func removed(t *testing.T, s store.Store, snapshot store.Snapshot) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := s.Watch(t.Context(), snapshot.Pairs[0].Key, snapshot.Revision)
	defer w.Close()
	for {
		batch, err := w.Next(ctx)
		require.NoError(t, err)
		for _, e := range batch.Events {
			if e.Removed {
				return boottime.Now()
			}
		}
	}
}
