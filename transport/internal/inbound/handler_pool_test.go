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

// Requests beyond MaxHandlers wait for a slot. Requests beyond maxWaiting are rejected. A wait
// ends with the request and with the session.
func TestHandlerPool_slots(t *testing.T) {
	pool := NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()})
	h := pool.NewHandler(jsonrpc.NewLifetime())
	for range MaxHandlers {
		pool.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxWaiting)
	wait := func(ctx context.Context) {
		_, err := runHandler(ctx, h, methodElicit, func(context.Context) (*int, error) { return new(int), nil })
		ended <- err
	}
	for range maxWaiting {
		go wait(ctx)
	}
	require.Eventually(t, func() bool { return pool.waiting.Load() == maxWaiting }, transporttest.Patience, transporttest.TimeStep)
	wait(t.Context())
	require.ErrorIs(t, <-ended, ErrTooMany)
	<-pool.slots
	for range maxWaiting { // they share the one free slot
		require.NoError(t, <-ended)
	}
	pool.slots <- struct{}{}
	go wait(ctx)
	require.Eventually(t, func() bool { return pool.waiting.Load() == 1 }, transporttest.Patience, transporttest.TimeStep)
	cancel()
	require.Error(t, <-ended)
	go wait(t.Context())
	h.lifetime.End(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	require.Error(t, <-ended)
	require.Zero(t, pool.waiting.Load())
}
