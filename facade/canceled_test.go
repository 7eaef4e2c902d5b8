package facade_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// An operation whose context has ended before begins nothing.
func TestContext_that_ended_before(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newClient(t)
	dir := t.TempDir()
	err := c.Register(ctx, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{StateDir: dir})})
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}), "the name is free")
	require.Zero(t, mcptest.Starts(dir))

	for name, run := range map[string]func(context.Context) error{
		"Subscribe":       func(ctx context.Context) error { return c.Subscribe(ctx, "s", "mcptest://text") },
		"SetLoggingLevel": func(ctx context.Context) error { return c.SetLoggingLevel(ctx, "s", "debug") },
	} {
		var e *mcpvisor.Error
		require.ErrorAs(t, run(ctx), &e, name)
		require.Equal(t, mcpvisor.KindCanceled, e.Kind, name)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome, name)
		require.NoError(t, run(t.Context()), name)
	}
}

// A nil context panics in the goroutine of the caller, which can recover.
func TestContext_nil(t *testing.T) {
	c := newClient(t)
	for name, run := range map[string]func(context.Context){
		"RegisterAll": func(ctx context.Context) { _ = c.RegisterAll(ctx, []mcpvisor.ServerSpec{{Name: "s"}}) },
		"Watch":       func(ctx context.Context) { c.Watch(ctx) },
		"WatchFrom":   func(ctx context.Context) { c.WatchFrom(ctx, 0) },
	} {
		require.Panics(t, func() { run(nil) }, name)
	}
}
