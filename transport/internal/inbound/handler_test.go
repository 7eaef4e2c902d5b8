package inbound

import (
	"context"
	"runtime"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func newTestHandler() *Handler {
	return NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()}).NewHandler(jsonrpc.NewLifetime())
}

// A handler that returns nothing, panics or ends its goroutine fails only its own request. The
// server does not see why.
func TestRunHandler_no_answer(t *testing.T) {
	for name, handler := range map[string]func(context.Context) (*int, error){
		"returns nothing":    func(context.Context) (*int, error) { return nil, nil },
		"ends its goroutine": func(context.Context) (*int, error) { runtime.Goexit(); return nil, nil },
		"panics":             func(context.Context) (*int, error) { panic("of the host") },
		"returns an error":   func(context.Context) (*int, error) { return nil, transporttest.ErrByHost },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestHandler()
			res, err := runHandler(t.Context(), h, methodSample, handler)
			require.Nil(t, res)
			require.ErrorIs(t, err, errNoAnswer)
			require.Equal(t, errNoAnswer.Message, err.Error(), "the server does not see the error of the handler")
			require.Eventually(t, func() bool { return len(h.Pool.slots) == 0 }, transporttest.Patience, transporttest.TimeStep)
		})
	}
}

// The end of the session ends the request and the context of its handler, even if the context
// of the request continues.
func TestRunHandler_session_ends(t *testing.T) {
	h := newTestHandler()
	cause := make(chan error, 1)
	began := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		_, err := runHandler(t.Context(), h, methodElicit, func(ctx context.Context) (*int, error) {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		failed <- err
	}()
	<-began
	h.lifetime.End(transporttest.ErrGivenUp)
	require.ErrorIs(t, <-cause, transporttest.ErrGivenUp)
	require.ErrorIs(t, <-failed, errNoAnswer)
}

// A panic of a host type, and a result that cannot be written as JSON, fail only their own
// request.
func TestHandler_dispatch_panic_or_invalid_result(t *testing.T) {
	h := newTestHandler()
	for name, value := range map[string]any{"a panic": panics{}, "not JSON": func() {}} {
		h.Pool.Handlers.ElicitForm = func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"f": value}}, nil
		}
		text, err := h.dispatch(t.Context(), h.host(), methodElicit, &mcp.ElicitParams{}, nil)
		require.Nil(t, text, name)
		require.ErrorIs(t, err, errNoAnswer, name)
	}
}

// panics is a value that panics when it is written as JSON.
type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("of the host") }

// A sampling result without content is not an answer. The result of the handler is not
// changed.
func TestHandler_sample(t *testing.T) {
	h := newTestHandler()
	var answer mcp.CreateMessageWithToolsResult
	sample := func() (*mcp.CreateMessageWithToolsResult, error) {
		return h.sample(t.Context(), func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &answer, nil
		}, &mcp.CreateMessageWithToolsParams{})
	}
	for _, content := range [][]mcp.Content{nil, {}, {nil}} {
		answer.Content = content
		_, err := sample()
		require.ErrorIs(t, err, errNoAnswer)
	}
	answer.Content = []mcp.Content{&mcp.TextContent{Text: "hi"}}
	res, err := sample()
	require.NoError(t, err)
	require.Equal(t, mcp.Role("assistant"), res.Role)
	require.Empty(t, answer.Role)
}

// Requests with tools, or with a choice of tools, need the declared capability.
func TestHandler_checkRequest_sampling_tools(t *testing.T) {
	h := newTestHandler()
	h.Pool.Handlers.Sample = transporttest.AnySample
	for _, p := range []*mcp.CreateMessageWithToolsParams{{Tools: []*mcp.Tool{{Name: "t"}}}, {ToolChoice: &mcp.ToolChoice{Mode: "auto"}}} {
		h.Pool.Handlers.SampleTools = false
		require.ErrorContains(t, h.checkRequest(h.host(), methodSample, p), "declares no tools")
		h.Pool.Handlers.SampleTools = true
		require.NoError(t, h.checkRequest(h.host(), methodSample, p))
	}
}

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

// Released room can be acquired again, even while other messages wait.
func TestAllowance(t *testing.T) {
	a := Allowance{Max: 2}
	require.True(t, a.Acquire(1))
	for range 3 {
		require.True(t, a.Acquire(MaxHeldBytes-1))
		require.False(t, a.Acquire(0), "by number")
		a.Release(MaxHeldBytes - 1)
	}
	require.False(t, a.Acquire(MaxHeldBytes), "by size")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
