package inbound

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// More questions than handlers may run wait for their turn; but not all that a
// server can think of.
func TestQuestionsThatWait(t *testing.T) {
	q := NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()})
	a := q.NewHandler(jsonrpc.NewLifetime())
	for range MaxHandlers {
		q.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxWaiting)
	wait := func(ctx context.Context) {
		_, err := runHandler(ctx, a, methodElicit, func(context.Context) (*int, error) { return new(int), nil })
		ended <- err
	}
	for range maxWaiting {
		go wait(ctx)
	}
	require.Eventually(t, func() bool { return q.waiting.Load() == maxWaiting }, transporttest.Patience, transporttest.TimeStep)
	wait(t.Context())
	require.ErrorIs(t, <-ended, ErrTooMany)
	<-q.slots
	for range maxWaiting { // one after the other, in one place
		require.NoError(t, <-ended)
	}
	q.slots <- struct{}{}
	go wait(ctx)
	require.Eventually(t, func() bool { return q.waiting.Load() == 1 }, transporttest.Patience, transporttest.TimeStep)
	cancel()
	require.Error(t, <-ended)
	go wait(t.Context())
	a.lifetime.End(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	require.Error(t, <-ended)
	require.Zero(t, q.waiting.Load())
}
