package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/memory"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// world makes nodes of one fleet in this process.
type world struct {
	t         testing.TB
	store     store.Store
	authority *certs.Authority
	scripts   map[string]mcptest.Script
}

func newWorld(t testing.TB) *world {
	t.Helper()
	authority, err := certs.NewAuthority("test")
	require.NoError(t, err)
	w := &world{t: t, store: memory.New(), authority: authority, scripts: map[string]mcptest.Script{}}
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

func (w *world) join(id string, change ...func(*Config)) *Node {
	w.t.Helper()
	cert, err := w.authority.IssueTLS(id)
	require.NoError(w.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	config := Config{Store: w.store, Identity: peer.Identity{Certificate: cert, Authorities: w.authority.Pool()}, Listener: listener, TTL: 3 * time.Second, AllowUnguarded: true,
		Logger: zerolog.New(zerolog.NewTestWriter(w.t)),
		Resolve: func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) {
			return mcpvisor.ServerSpec{Name: name, Stdio: mcptest.Stdio(w.scripts[name])}, nil
		}}
	for _, f := range change {
		f(&config)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	n, err := Join(ctx, config)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, n.Close(context.Background())) })
	return n
}

// someServers are n servers, the first of them exclusive.
func someServers(n, exclusive int) (all []Server) {
	for i := range n {
		all = append(all, Server{Name: fmt.Sprintf("s%d", i), Exclusive: i < exclusive, Definition: json.RawMessage(`{"n":1}`)})
	}
	return all
}

// twoNodes makes nodes a and b with servers that are ready on both.
func twoNodes(t *testing.T, n, exclusive int) (ctx context.Context, a, b *Node) {
	t.Helper()
	w := newWorld(t)
	a, b = w.join("a"), w.join("b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	_, err := a.Apply(ctx, someServers(n, exclusive))
	require.NoError(t, err)
	require.NoError(t, b.awaitRegistered(ctx, 1, someServers(n, exclusive)))
	waitReady(t, a)
	waitReady(t, b)
	return ctx, a, b
}

func waitReady(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, n.WaitReady(ctx))
}

// nodeOf returns which node runs a server, as n sees it.
func nodeOf(n *Node, server string) string {
	status, _ := n.ServerStatus(server)
	if status.Session == nil {
		return ""
	}
	return status.Session.Node
}

func TestJoin_one_catalog_on_all_nodes(t *testing.T) {
	w := newWorld(t)
	a, b := w.join("a"), w.join("b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	generation, err := a.Apply(ctx, someServers(6, 2))
	require.NoError(t, err)
	require.EqualValues(t, 1, generation)
	require.NoError(t, b.awaitRegistered(ctx, generation, someServers(6, 2)))
	waitReady(t, a)
	waitReady(t, b)

	require.Equal(t, toolNames(a), toolNames(b))
	require.NotEmpty(t, toolNames(a))
	on := map[string]int{}
	for _, name := range a.Servers() {
		require.Equal(t, nodeOf(a, name), nodeOf(b, name), name)
		on[nodeOf(a, name)]++
	}
	require.Len(t, on, 2, "%v", on)
	for _, n := range []*Node{a, b} {
		for _, name := range n.Servers() {
			result, err := n.CallTool(ctx, name+"/echo", map[string]any{"text": "hello"})
			require.NoError(t, err, "%s on %s", name, n.ID())
			require.False(t, result.IsError)
		}
	}
	status := b.Status()
	require.Len(t, status.Nodes, 2)
	require.Len(t, status.Servers, 6)
	require.True(t, status.Member)
	require.Zero(t, status.StaleSince)
}

func toolNames(n *Node) (names []string) {
	for _, tool := range n.Tools() {
		names = append(names, tool.Name)
	}
	return names
}

func TestNode_Drain_loses_no_call(t *testing.T) {
	t.Parallel()
	ctx, a, b := twoNodes(t, 6, 3)

	failed, stop, rounds := make(chan error, 1), make(chan struct{}), make(chan int)
	go func() {
		defer close(failed)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case rounds <- i:
			default:
			}
			for _, n := range []*Node{a, b} {
				if _, err := n.CallToolRaw(ctx, fmt.Sprintf("s%d/echo", i%6), json.RawMessage(`{"text":"x"}`), facade.WithWaitReady()); err != nil {
					failed <- fmt.Errorf("on %s: %w", n.ID(), err)
					return
				}
			}
		}
	}()
	require.NoError(t, a.Drain(ctx))
	waitReady(t, a)
	for _, name := range a.Servers() {
		require.Equal(t, "b", nodeOf(a, name))
	}
	first := -1
	for round := 0; round < first+12 || first < 0; { // each server is called on both nodes after the drain
		select {
		case round = <-rounds:
		case err := <-failed:
			require.NoError(t, err)
		}
		if first < 0 {
			first = round
		}
	}
	close(stop)
	require.NoError(t, <-failed)
	require.NoError(t, a.Leave(ctx))
	require.NoError(t, b.WaitReady(ctx))
}

func TestNode_Move(t *testing.T) {
	t.Parallel()
	ctx, a, b := twoNodes(t, 2, 1)
	for _, name := range a.Servers() {
		to := map[string]string{"a": "b", "b": "a"}[nodeOf(a, name)]
		require.NoError(t, b.Move(ctx, name, to))
		result, err := a.CallTool(ctx, name+"/pid", nil, facade.WithWaitReady())
		require.NoError(t, err)
		require.False(t, result.IsError)
		require.Eventually(t, func() bool { return nodeOf(a, name) == to && nodeOf(b, name) == to }, 20*time.Second, 5*time.Millisecond)
	}
	require.ErrorContains(t, a.Move(ctx, "s0", "c"), `move server "s0" to node "c": the fleet has no such node`)
	require.ErrorContains(t, a.Move(ctx, "nothing", "b"), "no such server")
}

// TestJoin_another_authority: a node whose certificate the others do not accept, or which does not accept theirs,
// takes no server: it does not join. One that can trust those that there are does.
func TestJoin_another_authority(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	other, err := certs.NewAuthority("other")
	require.NoError(t, err)
	both := w.authority.Pool()
	pem, _, err := other.PEM()
	require.NoError(t, err)
	require.True(t, both.AppendCertsFromPEM(pem))
	ours, err := w.authority.IssueTLS("b")
	require.NoError(t, err)
	foreign, err := other.IssueTLS("b")
	require.NoError(t, err)
	for name, row := range map[string]struct {
		identity peer.Identity
		joins    bool
	}{
		"of another authority":              {peer.Identity{Certificate: foreign, Authorities: other.Pool()}, false},
		"that the others do not know":       {peer.Identity{Certificate: foreign, Authorities: both}, false},
		"that knows another one, too":       {peer.Identity{Certificate: ours, Authorities: both}, true},
		"that does not know the others' CA": {peer.Identity{Certificate: ours, Authorities: other.Pool()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = listener.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n, err := Join(ctx, Config{Store: w.store, Identity: row.identity, Listener: listener, TTL: 3 * time.Second, AllowUnguarded: true})
			if row.joins {
				require.NoError(t, err)
				require.Equal(t, row.identity.Expires(), n.Status().CertificateExpires)
				require.NoError(t, n.Leave(ctx))
				return
			}
			require.ErrorContains(t, err, `it and node "a" do not accept each other's certificates`)
			require.Len(t, a.Status().Nodes, 1, "it has not joined")
		})
	}
}

// TestNode_certificate_expires: it is said before.
func TestNode_certificate_expires(t *testing.T) {
	w := newWorld(t)
	var log syncLog
	cert, err := w.authority.IssueTLS("a")
	require.NoError(t, err)
	leaf := *cert.Leaf
	leaf.NotAfter = time.Now().Add(CertificateWarning - time.Hour)
	cert.Leaf = &leaf
	w.join("a", func(c *Config) {
		c.Identity.Certificate = cert
		c.Logger = zerolog.New(&log)
	})
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the certificate of the node expires soon") }, time.Minute, 5*time.Millisecond)
}

// syncLog is a log that may be read while it is written.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
