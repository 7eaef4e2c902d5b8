package inbound

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// What the go-sdk does with an answer may go on; nobody waits for it.
func TestInputThatNeverComes(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	wants := []inputRequest{{key: "f", method: methodElicit, params: []byte(`{"message":"?"}`)}}
	stuck := func() *Handler {
		q := NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()})
		a := q.NewHandler(jsonrpc.NewLifetime())
		a.Next = func(context.Context, string, mcp.Request) (mcp.Result, error) {
			<-stop
			return nil, errors.New("too late")
		}
		return a
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := stuck().answerInputs(ctx, wants)
	require.ErrorIs(t, err, context.Canceled)

	a := stuck()
	killed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
	a.lifetime.End(killed)
	_, err = a.answerInputs(t.Context(), wants)
	require.ErrorIs(t, err, killed)

	// The first failure decides.
	_, err = stuck().answerInputs(t.Context(), append(wants, inputRequest{key: "g", method: "tools/list"}))
	require.ErrorContains(t, err, "which clients do not have")
}
