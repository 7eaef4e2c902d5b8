package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// childSpan is what a tracedServer says about the span that it made for a call.
type childSpan struct {
	TraceID, Parent string
	Sampled         bool
	State           string
	Meta            map[string]any
}

// tracedServer is a server of the go-sdk that traces its calls with the SDK of
// OpenTelemetry, as a service of another team does: it takes the trace context from _meta.
// Its tool says which span it made.
func tracedServer() *mcp.Server {
	tracer := sdktrace.NewTracerProvider().Tracer("server")
	s := mcp.NewServer(&mcp.Implementation{Name: "traced", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "span"}, func(ctx context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		carrier := propagation.MapCarrier{}
		for name, value := range r.Params.Meta {
			if text, ok := value.(string); ok {
				carrier[name] = text
			}
		}
		_, span := tracer.Start(propagation.TraceContext{}.Extract(ctx, carrier), "work")
		defer span.End()
		parent := span.(sdktrace.ReadOnlySpan).Parent()
		text, err := json.Marshal(childSpan{TraceID: span.SpanContext().TraceID().String(), Parent: parent.SpanID().String(),
			Sampled: parent.IsSampled(), State: parent.TraceState().String(), Meta: r.Params.Meta})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, err
	})
	return s
}

// tracedServerVariable makes the test binary serve tracedServer on its standard streams.
const tracedServerVariable = "MCPVISOR_TEST_TRACED_SERVER"

func serveTracedOnStdio() {
	if os.Getenv(tracedServerVariable) == "" {
		return
	}
	_ = tracedServer().Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// onEveryTracedServer runs f with a tracedServer over each transport, in both eras.
func onEveryTracedServer(t *testing.T, f func(t *testing.T, spec mcpvisor.ServerSpec)) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	stdio := &mcpvisor.Stdio{Command: program, Env: map[string]string{tracedServerVariable: "1"}}
	serve := func(h http.Handler) *mcpvisor.HTTP {
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		return &mcpvisor.HTTP{URL: web.URL}
	}
	one := func(*http.Request) *mcp.Server { return tracedServer() }
	sse := serve(mcp.NewSSEHandler(one, nil))
	sse.SSE = true
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"legacy memory": {Era: mcpvisor.EraLegacy, InMemory: facade.ServeInMemory(tracedServer())},
		"modern memory": {Era: mcpvisor.EraModern, InMemory: facade.ServeInMemory(tracedServer())},
		"legacy stdio":  {Era: mcpvisor.EraLegacy, Stdio: stdio},
		"modern stdio":  {Era: mcpvisor.EraModern, Stdio: stdio},
		"legacy HTTP":   {Era: mcpvisor.EraLegacy, HTTP: serve(mcp.NewStreamableHTTPHandler(one, nil))},
		"modern HTTP":   {Era: mcpvisor.EraModern, HTTP: serve(mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true}))},
		"HTTP+SSE":      {HTTP: sse},
	} {
		spec.Name = "s"
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}

// callTraced calls the tool of a tracedServer.
func (f *fixture) callTraced(ctx context.Context) (child childSpan) {
	f.t.Helper()
	r, err := f.client.CallTool(ctx, "s/span", map[string]any{"secret": "canary-4711"})
	require.NoError(f.t, err)
	require.False(f.t, r.IsError)
	require.NoError(f.t, json.Unmarshal([]byte(r.Content[0].(*mcp.TextContent).Text), &child))
	return child
}

// hostContext is a context with a span of the host, whose trace has a state. The test ends
// the span.
func hostContext(t *testing.T, tracer trace.Tracer, state string) (context.Context, trace.Span) {
	t.Helper()
	parsed, err := trace.ParseTraceState(state)
	require.NoError(t, err)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: parsed})
	return tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), remote), "host") //nolint:spancheck // the test ends it
}
