package inbound

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func newTestHandler() *Handler {
	return NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()}).NewHandler(jsonrpc.NewLifetime())
}

// What a handler does to itself costs its one question.
func TestHandlersThatReturnNothing(t *testing.T) {
	for name, handler := range map[string]func(context.Context) (*int, error){
		"nothing":  func(context.Context) (*int, error) { return nil, nil },
		"goes":     func(context.Context) (*int, error) { runtime.Goexit(); return nil, nil },
		"panics":   func(context.Context) (*int, error) { panic("of the host") },
		"an error": func(context.Context) (*int, error) { return nil, transporttest.ErrByHost },
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestHandler()
			res, err := runHandler(t.Context(), a, methodSample, handler)
			require.Nil(t, res)
			require.ErrorIs(t, err, errNoAnswer)
			require.Equal(t, errNoAnswer.Message, err.Error(), "the rest is none of the server's business")
			require.Eventually(t, func() bool { return len(a.slots) == 0 }, transporttest.Patience, transporttest.TimeStep)
		})
	}
}

// Whoever waits for an answer hears of the session's end, and so does the handler,
// whatever becomes of the request's own context.
func TestAHandlerHearsOfTheDeath(t *testing.T) {
	a := newTestHandler()
	cause := make(chan error, 1)
	began := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		_, err := runHandler(t.Context(), a, methodElicit, func(ctx context.Context) (*int, error) {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		failed <- err
	}()
	<-began
	a.lifetime.End(transporttest.ErrGivenUp)
	require.ErrorIs(t, <-cause, transporttest.ErrGivenUp)
	require.ErrorIs(t, <-failed, errNoAnswer)
}

// What is asked beside a question that fails is taken back.
func TestOneFailureEndsTheOthers(t *testing.T) {
	a := newTestHandler()
	ended := make(chan struct{})
	a.Next = func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
		<-ctx.Done()
		close(ended)
		return nil, errors.New("too late")
	}
	_, err := a.answerInputs(t.Context(), []inputRequest{
		{key: "f", method: methodElicit, params: []byte(`{"message":"?"}`)}, {key: "g", method: "tools/list"}})
	require.ErrorContains(t, err, "which clients do not have")
	transporttest.RequireClosed(t, ended, "somebody is still asked")
}

// A pause before the next round ends with the call, and with the session.
func TestPutOffIsNoDetention(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		newTestHandler().pauseBeforeRound(ctx, 1)
		a := newTestHandler()
		a.lifetime.End(transporttest.ErrGivenUp)
		a.pauseBeforeRound(t.Context(), 1)
		require.Zero(t, time.Since(began))
	})
}
