package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/memory"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// epochOf asks a server for its MCPVISOR_EPOCH.
func epochOf(t *testing.T, n *Node, server string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	result, err := n.CallTool(ctx, server+"/env", map[string]any{"name": "MCPVISOR_EPOCH"}, facade.WithWaitReady())
	require.NoError(t, err)
	epoch, err := strconv.ParseUint(schema.Text(result), 10, 64)
	require.NoError(t, err, schema.Text(result))
	return epoch
}

func TestNode_epoch_grows_with_every_incarnation_on_any_node(t *testing.T) {
	t.Parallel()
	_, a, b := onB(t, mcptest.Script{})
	first := epochOf(t, a, "s")
	ctx := t.Context()
	require.NoError(t, b.Client.Restart(ctx, "s"))
	require.NoError(t, b.WaitReady(ctx, "s"))
	second := epochOf(t, b, "s")
	require.Greater(t, second, first)
	require.Equal(t, first>>epochBits, second>>epochBits)
}

func TestNode_epoch_grows_with_a_move(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join("a"), w.join("b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(1, 1))
	require.NoError(t, err)
	waitReady(t, a)
	require.NoError(t, b.awaitRegistered(ctx, 1, someServers(1, 1)))
	waitReady(t, b)
	before := epochOf(t, a, "s0")
	require.NoError(t, a.Move(ctx, "s0", map[string]string{"a": "b", "b": "a"}[nodeOf(a, "s0")]))
	require.Greater(t, epochOf(t, b, "s0")>>epochBits, before>>epochBits)
	for _, n := range []*Node{a, b} { // on the one where it was, and on the one that followed
		require.Eventually(t, func() bool {
			status, _ := n.ServerStatus("s0")
			return slices.ContainsFunc(status.History, func(one mcpvisor.Incarnation) bool { return one.Served && one.Cause.Kind == supervisor.CauseMoved })
		}, 30*time.Second, 5*time.Millisecond, n.id)
		status, _ := n.ServerStatus("s0")
		for _, one := range status.History {
			require.True(t, !one.Served || one.Cause.Asked(), "node %s: %v", n.id, one.Cause)
		}
	}
}

func TestNode_Close_others_take_over(t *testing.T) {
	t.Parallel()
	ctx, a, b := twoNodes(t, 6, 6)
	require.NoError(t, a.Close(ctx))
	for _, name := range b.Servers() {
		_, err := b.CallTool(ctx, name+"/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
		require.NoError(t, err, name)
		require.Equal(t, "b", nodeOf(b, name))
	}
	_, err := a.CallTool(ctx, "s0/echo", nil)
	require.Error(t, err)
	require.NoError(t, a.Close(ctx), "twice")
}

func TestNode_without_guard_refuses_exclusive_servers(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", func(c *Config) { c.AllowUnguarded = false })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(2, 1))
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "s1"))
	require.Eventually(t, func() bool { // it waits for another node that can
		status, _ := a.ServerStatus("s0")
		return status.State != supervisor.StateReady && status.LastCause != nil && strings.Contains(status.LastCause.Error(), "Config.GuardTicket")
	}, 20*time.Second, 5*time.Millisecond)
}

func TestNode_definition_that_one_node_cannot_use(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	b := w.join("b", func(c *Config) {
		c.Resolve = func(string, json.RawMessage) (mcpvisor.ServerSpec, error) {
			return mcpvisor.ServerSpec{}, errors.New("variable TOKEN is not set")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.Apply(ctx, someServers(1, 0))
	require.ErrorContains(t, err, "TOKEN", "nothing is applied")
	_, err = a.Apply(ctx, someServers(4, 0))
	require.NoError(t, err)
	require.NoError(t, b.awaitRegistered(ctx, 1, someServers(4, 0)))
	for _, name := range b.Servers() {
		_, err := b.CallTool(ctx, name+"/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
		require.NoError(t, err, "it is reached on the other node")
	}
	for _, s := range a.Status().Servers {
		require.Equal(t, "a", s.Node, s.Name)
	}
}

func TestNode_Apply_leaves_other_servers_alone(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", func(c *Config) { c.Listener, c.ID = nil, "a" })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, a.Register(ctx, mcpvisor.ServerSpec{Name: "own", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err := a.Apply(ctx, someServers(2, 0))
	require.NoError(t, err)
	waitReady(t, a)
	require.ElementsMatch(t, []string{"own", "s0", "s1"}, a.Servers())
	_, err = a.Apply(ctx, someServers(1, 0))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(a.Servers()) == 2 }, 20*time.Second, 5*time.Millisecond)
	require.ElementsMatch(t, []string{"own", "s0"}, a.Servers())
	require.Len(t, a.Status().Servers, 1)
}

func TestLocal_after_the_deadline_executes_nothing(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := a.Apply(ctx, someServers(2, 1))
	require.NoError(t, err)
	waitReady(t, a)
	l := a.routes.localOf("s0")
	inForce := true
	l.inForce = func() bool { return inForce }
	_, err = a.CallTool(ctx, "s0/count", map[string]any{"key": "k"})
	require.NoError(t, err)
	inForce = false
	_, err = a.CallTool(ctx, "s0/count", map[string]any{"key": "k"})
	require.ErrorIs(t, err, peer.ErrLeaseOver)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}

func TestJoin_bad_configuration(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct {
		config Config
		want   string
	}{
		{Config{}, "Config.Store is nil"},
		{Config{Store: w.store}, "Config.ID"},
		{Config{Store: w.store, ID: "a/b"}, "Config.ID"},
		{Config{Store: w.store, ID: "a", TTL: time.Second}, "the least is 3s"},
		{Config{Store: w.store, ID: "a", Weight: -1}, "finite and not negative"},
		{Config{Store: w.store, ID: "a", Weight: math.Inf(1)}, "finite and not negative"},
	} {
		_, err := Join(t.Context(), row.config)
		require.ErrorContains(t, err, row.want)
	}
	away := memory.New()
	require.NoError(t, away.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Join(ctx, Config{Store: away, ID: "a"})
	require.ErrorContains(t, err, "the store has not answered")
}

// TestNode_slow_definition: a definition that takes longer than the lease to resolve delays neither
// other servers nor the renewals.
func TestNode_slow_definition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	var resolve func(string, json.RawMessage) (mcpvisor.ServerSpec, error)
	a := w.join("a", func(c *Config) {
		resolve = c.Resolve
		c.Resolve = func(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error) {
			if name == "s0" {
				<-release
			}
			return resolve(name, definition)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Apply(ctx, w.store, someServers(2, 0))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("s1")
		return status.Session != nil && status.Session.PID != 0
	}, 20*time.Second, 5*time.Millisecond)
	lease, before := a.lease.Load(), a.deadline.Load()
	require.Eventually(t, func() bool { return time.Duration(a.deadline.Load()-before) > 3*time.Second }, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, lease, a.lease.Load())
	_, known := a.ServerStatus("s0")
	require.False(t, known)
	close(release)
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("s0")
		return status.Session != nil && status.Session.PID != 0
	}, 20*time.Second, 5*time.Millisecond)
}

// TestNode_other_labels: a server continues if only where it may run has changed.
func TestNode_other_labels(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", func(c *Config) { c.Labels = map[string]string{"zone": "1"} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := someServers(1, 0)
	_, err := a.Apply(ctx, all)
	require.NoError(t, err)
	waitReady(t, a)
	before, _ := a.ServerStatus("s0")
	all[0].Labels = map[string]string{"zone": "1"}
	generation, err := a.Apply(ctx, all)
	require.NoError(t, err)
	require.EqualValues(t, 2, generation)
	require.Eventually(t, func() bool { return a.Status().Servers[0].Labels["zone"] == "1" }, 20*time.Second, 5*time.Millisecond)
	after, _ := a.ServerStatus("s0")
	require.Equal(t, before.Session.PID, after.Session.PID)
	require.Equal(t, before.Gen, after.Gen)
	all[0].Definition = json.RawMessage(`{"n":2}`)
	_, err = a.Apply(ctx, all)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("s0")
		return status.Gen > before.Gen && status.Session != nil
	}, 20*time.Second, 5*time.Millisecond)
}

// TestNode_Leave_lets_calls_end: a call of a node that leaves to a server of another node has its result; one that
// comes later is not sent.
func TestNode_Leave_lets_calls_end(t *testing.T) {
	t.Parallel()
	_, a, b := onB(t, mcptest.Script{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	called := make(chan error, 1)
	go func() {
		_, err := a.CallTool(ctx, "s/sleep", map[string]any{"ms": 3000})
		called <- err
	}()
	require.Eventually(t, func() bool { return b.routes.localOf("s").calls.Load() == 1 }, 20*time.Second, time.Millisecond)
	left := make(chan error, 1)
	go func() { left <- a.Leave(ctx) }()
	require.Eventually(t, a.calls.leaving.Load, 20*time.Second, time.Millisecond)
	_, err := a.CallTool(ctx, "s/echo", map[string]any{"text": "x"})
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome, err)
	require.NoError(t, <-called)
	require.NoError(t, <-left)
	expired, end := context.WithCancel(ctx)
	end()
	require.NoError(t, a.Close(expired), "it has ended")
}

// A server that is removed from the fleet ends when its calls have ended: those of its node, and those of others.
func TestNode_removed_server_lets_calls_end(t *testing.T) {
	t.Parallel()
	_, a, b := onB(t, mcptest.Script{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	called := make(chan error, 2)
	for n, ms := range map[*Node]int{a: 3000, b: 500} {
		go func() {
			_, err := n.CallTool(ctx, "s/sleep", map[string]any{"ms": ms})
			called <- err
		}()
	}
	require.Eventually(t, func() bool { return b.routes.localOf("s").calls.Load() == 2 }, 20*time.Second, time.Millisecond)
	_, err := a.Apply(ctx, []Server{{Name: "other", Definition: json.RawMessage(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, a.WaitReady(ctx, "other"), "it does not wait for the end of the other")
	require.NoError(t, <-called)
	require.NoError(t, <-called)
	require.Eventually(t, func() bool { return !slices.Contains(a.Servers(), "s") && !slices.Contains(b.Servers(), "s") }, 20*time.Second, time.Millisecond)
}

// waitingStore waits in Watch, as long as the store in memory is away.
type waitingStore struct {
	*memory.Store
	away chan struct{} // closed while it is
}

func (s waitingStore) Watch(ctx context.Context, prefix string, after int64) store.Watcher {
	select {
	case <-s.away:
		<-ctx.Done()
	default:
	}
	return s.Store.Watch(ctx, prefix, after)
}

// TestNode_store_away: a node that is cut off says so, also when each call of the store waits, and ends when it is
// asked to.
func TestNode_store_away(t *testing.T) {
	for name, end := range map[string]func(n *Node, ctx context.Context) error{"leave": (*Node).Leave, "close": (*Node).Close} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := waitingStore{w.store.(*memory.Store), make(chan struct{})}
			w.store = s
			a := w.join("a")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := a.Apply(ctx, someServers(2, 1))
			require.NoError(t, err)
			waitReady(t, a)
			status := a.Status()
			require.True(t, status.Member)
			require.Zero(t, status.CutOffSince)
			require.Zero(t, status.Fences)
			began := time.Now()
			close(s.away)
			s.SetAway(true)
			require.Eventually(t, func() bool { status = a.Status(); return !status.Member && !status.StaleSince.IsZero() }, 30*time.Second, 10*time.Millisecond)
			require.EqualValues(t, 1, status.Fences)
			require.WithinRange(t, status.CutOffSince, began, time.Now())
			require.Zero(t, status.LeaseEnds)
			exclusive, _ := a.ServerStatus("s0")
			require.NotEqual(t, supervisor.StateReady, exclusive.State)
			ended := make(chan error, 1)
			go func() { ended <- end(a, ctx) }()
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(30 * time.Second):
				require.FailNow(t, "it waits for the store")
			}
		})
	}
}
