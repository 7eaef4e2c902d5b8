package telemetry

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// countingObserver counts the tool calls that it sees, and sends a member of _meta.
type countingObserver struct{ began, ended atomic.Int64 }

func (o *countingObserver) RequestStarted(ctx context.Context, r mcpvisor.RequestStart) (context.Context, []byte) {
	if r.Method == "tools/call" {
		o.began.Add(1)
	}
	return ctx, []byte(`{"of":"the host"}`)
}

func (o *countingObserver) RequestEnded(_ context.Context, r mcpvisor.RequestEnd) {
	if r.Method == "tools/call" {
		o.ended.Add(1)
	}
}

// A client that serves already can be measured, and keeps the observer that it has.
func TestAttach_to_a_client_in_service(t *testing.T) {
	host := &countingObserver{}
	f := newFixtureWith(t, []facade.Option{facade.WithObserver(host)}, nil, WithTracerProvider(sdktrace.NewTracerProvider()))
	f.register(memory("s", mcptest.Script{}))
	_, err := f.client.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.EqualValues(t, 1, host.began.Load())
	require.EqualValues(t, 1, host.ended.Load())

	late, err := Attach(f.client, WithoutSpans())
	require.NoError(t, err)
	_, err = f.client.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.EqualValues(t, 2, host.began.Load(), "all three observers see the second call")
	require.EqualValues(t, 2, host.ended.Load())
	require.NotEmpty(t, f.series(nameClientOperation))
	require.NoError(t, late.Close())
	require.NoError(t, late.Close(), "further calls return nil")

	_, err = Attach(nil)
	require.ErrorContains(t, err, "needs a client")
}

// panickingObserver panics at the start of each tool call.
type panickingObserver struct{ countingObserver }

func (o *panickingObserver) RequestStarted(ctx context.Context, r mcpvisor.RequestStart) (context.Context, []byte) {
	if r.Method == "tools/call" {
		panic("panic of the host")
	}
	return ctx, nil
}

// An observer of the host that panics costs no span: neither that of the request nor that of
// its caller ends early.
func TestAttach_host_observer_panics(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := newFixtureWith(t, []facade.Option{facade.WithObserver(&panickingObserver{})}, nil, WithTracerProvider(provider))
	f.register(memory("s", mcptest.Script{}))
	before := len(spans.Ended())
	ctx, turn := provider.Tracer("agent").Start(t.Context(), "turn")
	defer turn.End()
	_, err := f.client.CallTool(ctx, "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.True(t, turn.IsRecording(), "the caller's span is open")
	require.Len(t, spans.Ended(), before+1)
}
