package actors

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// failingSession returns the same error value from every call.
type failingSession struct {
	bareSession
	err error
}

func (s *failingSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if r.Method == "tools/call" {
		return nil, s.err
	}
	return s.bareSession.Request(ctx, r)
}

type dialerOf struct{ make func() transport.Session }

func (d dialerOf) NewSession() transport.Session { return d.make() }

func TestRequestDoesNotMutateASharedError(t *testing.T) {
	shared := &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown}
	rt := New(Options{NewDialer: func(mcpvisor.ServerSpec) (transport.Dialer, error) {
		return dialerOf{func() transport.Session {
			return &failingSession{bareSession: bareSession{dead: make(chan struct{})}, err: shared}
		}}, nil
	}})
	defer func() { require.NoError(t, rt.Close(t.Context())) }()
	require.NoError(t, rt.Register(t.Context(), mcpvisor.ServerSpec{Name: "fs"}))
	v := rt.Snapshot().Server("fs")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			_, _, err := rt.Request(t.Context(), v, transport.Request{Method: "tools/call"}, 0)
			e := asError(t, err)
			require.Equal(t, "fs", e.Server)
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		})
	}
	wg.Wait()
	require.Equal(t, &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown}, shared)
}
