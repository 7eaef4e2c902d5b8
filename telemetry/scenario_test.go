package telemetry

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// scenario lets a client emit every metric, with every attribute that it can have.
func (f *fixture) scenario() {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	// The first collection takes the sample of what processes use, so it comes after this one.
	f.register(mcpvisor.ServerSpec{Name: "process", Stdio: mcptest.Stdio(mcptest.Script{})})
	require.NotEmpty(t, f.metrics())
	spec := memory("s", mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageCall, Tool: "add", Do: mcptest.ActionExit, Code: 3}}})
	spec.Standby = true
	f.register(spec)
	call := func(tool string, args map[string]any) error { _, err := f.client.CallTool(ctx, tool, args); return err }
	require.NoError(t, call("s/echo", map[string]any{"text": "x"}))
	require.NoError(t, call("s/fail", map[string]any{"text": "no"}))
	_, err := f.client.GetPrompt(ctx, "s/greet", map[string]string{"name": "Ada"})
	require.NoError(t, err)
	_, err = f.client.ReadResource(ctx, "s", "mcptest://text")
	require.NoError(t, err)
	require.NoError(t, call("s/add_tool", map[string]any{"name": "more"}))
	require.ErrorIs(t, call("s/no-such-tool", nil), mcpvisor.ErrUnknownTool)
	require.ErrorIs(t, call("nowhere/echo", nil), mcpvisor.ErrUnknownServer)
	eventually(t, func() bool { return f.sum(nameCatalogChanges) > 0 })
	eventually(t, func() bool { s, _ := f.client.ServerStatus("s"); return s.Standby != nil })
	require.ErrorIs(t, call("s/add", nil), mcpvisor.ErrCrashed)
	require.NoError(t, f.client.WaitReady(ctx, "s"))

	failing := memory("failing", mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}}})
	failing.Policy, failing.StartSupervised = supervisor.Retry(supervisor.Unlimited, time.Hour), true
	f.register(failing)
	eventually(t, func() bool { return f.sum(nameBackoff) > 0 })
	eventually(t, func() bool {
		return f.sum(nameOutage) > 0 && f.sum(nameSession) > 0 && f.sum(nameStart, keyErrorType.String("exit")) > 0
	})

	for _, method := range []string{"roots/list", "sampling/createMessage"} { // the second one has no handler
		_ = call("s/consult", map[string]any{"method": method, "params": map[string]any{"maxTokens": 1, "messages": []any{}}})
	}
}

// observe shows the observer one request.
func (f *fixture) observe(r mcpvisor.RequestEnd) {
	o := f.tel.observer(nil)
	ctx, _ := o.RequestStarted(context.Background(), r.RequestStart)
	o.RequestEnded(ctx, r)
}
