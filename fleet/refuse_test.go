package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// bySpec resolves definitions that are the fields of a spec.
func bySpec(c *Config) {
	c.Resolve = func(name string, definition json.RawMessage) (spec mcpvisor.ServerSpec, err error) {
		err = json.Unmarshal(definition, &spec)
		spec.Name, spec.Stdio = name, mcptest.Stdio(mcptest.Script{})
		return spec, err
	}
}

// A definition that asks for what a fleet does not do is refused by name, and no node runs it.
func TestRefused_definitions(t *testing.T) {
	t.Parallel()
	for field, definition := range map[string]string{"start": `{"Start":"lazy"}`, "idle_stop": `{"IdleStop":1000000000}`, "transient": `{"Transient":true}`} {
		for _, exclusive := range []bool{false, true} {
			w := newWorld(t)
			a := w.join("a", bySpec)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			servers := []Server{{Name: "s", Exclusive: exclusive, Definition: json.RawMessage(definition)}}
			_, err := a.Apply(ctx, servers)
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			require.ErrorContains(t, err, field+" (ServerSpec.")
			require.ErrorContains(t, err, "remove it")
			require.Empty(t, a.Status().Servers, "nothing is applied")

			_, err = Apply(ctx, w.store, servers) // a program without a node cannot know
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				status, _ := a.ServerStatus("s")
				return status.LastCause != nil && a.unable("s") != nil && a.Status().Servers[0].Node == ""
			}, 30*time.Second, 5*time.Millisecond)
			require.ErrorIs(t, a.unable("s"), mcpvisor.ErrInvalid)
			status, _ := a.ServerStatus("s")
			require.ErrorContains(t, status.LastCause, field+" (ServerSpec.")
		}
	}
}

// A server of the fleet can be neither stopped nor in a group of one node. Those of the process can.
func TestRefused_orders(t *testing.T) {
	t.Parallel()
	ctx, a, b := twoNodes(t, 2, 1)
	own := mcpvisor.ServerSpec{Name: "own", InMemory: mcptest.InMemory(mcptest.Script{})}
	for _, n := range []*Node{a, b} {
		require.NoError(t, n.Register(ctx, own))
		err := n.Stop(ctx, "s0")
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "apply the servers of the fleet without it")
		err = n.SetGroups(ctx, []mcpvisor.Group{{Name: "g", Members: []string{"own", "s1"}}})
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, `group "g": member "s1"`)
		require.ErrorContains(t, err, "set ServerSpec.After")
		require.Empty(t, n.Groups())
		for _, server := range []string{"s0", "s1"} {
			require.NoError(t, n.Start(ctx, server), "it runs")
			_, err = n.CallTool(ctx, server+"/echo", map[string]any{"text": "x"})
			require.NoError(t, err)
		}
		require.NoError(t, n.Stop(ctx, "own"))
		require.NoError(t, n.Start(ctx, "own"))
	}
	require.NoError(t, a.SetGroups(ctx, []mcpvisor.Group{{Name: "g", Members: []string{"own", "s2"}}}))
	_, err := a.Apply(ctx, someServers(3, 1))
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, `group "g" of node "a"`)
	require.Len(t, a.Status().Servers, 2, "nothing is applied")
	_, err = b.Apply(ctx, someServers(3, 1)) // it cannot know
	require.NoError(t, err)
	_, err = b.CallTool(ctx, "s2/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	require.NoError(t, err)
	_, registered := a.ServerStatus("s2")
	require.False(t, registered, "in a group it would be ended and restarted for this node")
	require.NoError(t, a.SetGroups(ctx, nil))
	require.Eventually(t, func() bool {
		_, err := a.CallTool(ctx, "s2/echo", map[string]any{"text": "x"})
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
}

// A server that comes after one of another node waits until that is ready, and continues when it is not.
func TestAfter_a_server_of_another_node(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	on := func(node string) func(*Config) {
		return func(c *Config) { bySpec(c); c.Labels = map[string]string{"on": node} }
	}
	a := w.join("a", on("a"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers := []Server{
		{Name: "api", Labels: map[string]string{"on": "a"}, Exclusive: true, Definition: json.RawMessage(`{"After":["db"]}`)},
		{Name: "db", Labels: map[string]string{"on": "b"}, Definition: json.RawMessage(`{}`)},
	}
	circle := []Server{servers[0], {Name: "db", Definition: json.RawMessage(`{"After":["api"]}`)}}
	_, err := a.Apply(ctx, circle)
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "wait for each other")
	_, err = a.Apply(ctx, servers)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("api")
		return status.State == supervisor.StateWaiting && a.routes.localOf("api") != nil
	}, 30*time.Second, 5*time.Millisecond)
	status, _ := a.ServerStatus("api")
	require.Equal(t, []string{"db"}, status.WaitsFor)
	_, err = a.CallTool(ctx, "api/echo", map[string]any{"text": "x"})
	require.ErrorContains(t, err, "it waits for db")

	b := w.join("b", on("b"))
	for _, n := range []*Node{a, b} {
		waitReady(t, n)
		require.Equal(t, "a", nodeOf(n, "api"))
		require.Equal(t, "b", nodeOf(n, "db"))
		_, err = n.CallTool(ctx, "api/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	before := epochOf(t, a, "api")
	require.NoError(t, b.Close(ctx))
	require.Eventually(t, func() bool {
		status, _ := a.ServerStatus("db")
		return status.State != supervisor.StateReady
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, before, epochOf(t, a, "api"))
}
