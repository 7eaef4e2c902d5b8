package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	serveTracedOnStdio()
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// fixture is a client with telemetry whose metrics a test reads.
type fixture struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
	tel    *Telemetry
	client *facade.Client
}

// newFixture attaches telemetry to a client. Both are closed at the end of the test.
func newFixture(t *testing.T, opts ...Option) *fixture {
	t.Helper()
	return newFixtureWith(t, []facade.Option{facade.WithRoots()}, nil, opts...)
}

// newFixtureWith is newFixture for a client with these options, and another reader of its
// metrics; nil for none.
func newFixtureWith(t *testing.T, more []facade.Option, also sdkmetric.Reader, opts ...Option) *fixture {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	// A series too many must show, so the bound of the SDK is off.
	with := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0)}
	if also != nil {
		with = append(with, sdkmetric.WithReader(also))
	}
	provider := sdkmetric.NewMeterProvider(with...)
	client, err := facade.New(more...)
	require.NoError(t, err)
	tel, err := Attach(client, append([]Option{WithMeterProvider(provider), WithGateway(clients.New().Status)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close(context.Background()))
		require.NoError(t, tel.Close())
		require.NoError(t, provider.Shutdown(context.Background()))
	})
	return &fixture{t, reader, tel, client}
}

func (f *fixture) register(spec mcpvisor.ServerSpec) {
	f.t.Helper()
	require.NoError(f.t, f.client.Register(f.t.Context(), spec))
}

// memory is a server of a script, in this process.
func memory(name string, script mcptest.Script) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(script), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
}

// metrics collects all metrics, by name.
func (f *fixture) metrics() map[string]metricdata.Metrics {
	f.t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(f.t, f.reader.Collect(context.Background(), &data))
	all := map[string]metricdata.Metrics{}
	for _, s := range data.ScopeMetrics {
		require.Equal(f.t, scope, s.Scope.Name)
		for _, m := range s.Metrics {
			require.NotContains(f.t, all, m.Name)
			all[m.Name] = m
		}
	}
	return all
}

// point is one series of a metric. Of a histogram, value is how many it has recorded;
// seconds are whole.
type point struct {
	attributes attribute.Set
	value      int64
}

// text returns an attribute as text; empty if the series does not have it.
func (p point) text(key attribute.Key) string {
	v, _ := p.attributes.Value(key)
	return v.AsString()
}

// series returns the series of a metric that have all of the attributes.
func (f *fixture) series(name string, having ...attribute.KeyValue) (found []point) {
	f.t.Helper()
	for _, p := range points(f.metrics()[name]) {
		all := true
		for _, want := range having {
			v, ok := p.attributes.Value(want.Key)
			all = all && ok && v == want.Value
		}
		if all {
			found = append(found, p)
		}
	}
	return found
}

// sum adds up the series of a metric that have all of the attributes.
func (f *fixture) sum(name string, having ...attribute.KeyValue) (total int64) {
	f.t.Helper()
	for _, p := range f.series(name, having...) {
		total += p.value
	}
	return total
}

func points(m metricdata.Metrics) (all []point) {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, int64(p.Count)})
		}
	case metricdata.Sum[int64]:
		all = numbers(data.DataPoints)
	case metricdata.Sum[float64]:
		all = numbers(data.DataPoints)
	case metricdata.Gauge[int64]:
		all = numbers(data.DataPoints)
	case metricdata.Gauge[float64]:
		all = numbers(data.DataPoints)
	}
	return all
}

func numbers[N int64 | float64](data []metricdata.DataPoint[N]) (all []point) {
	for _, p := range data {
		all = append(all, point{p.Attributes, int64(p.Value)})
	}
	return all
}

// eventually waits until a condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 2*time.Millisecond)
}

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
func (f *fixture) observe(r monitor.RequestEnd) {
	o := f.tel.observer(nil)
	ctx, _ := o.RequestStarted(context.Background(), r.RequestStart)
	o.RequestEnded(ctx, r)
}

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
func (f *fixture) callTraced(ctx context.Context, opts ...facade.CallOption) (child childSpan) {
	f.t.Helper()
	r, err := f.client.CallTool(ctx, "s/span", map[string]any{"secret": "canary-4711"}, opts...)
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

// countingObserver counts the tool calls that it sees, and sends a member of _meta.
type countingObserver struct{ began, ended atomic.Int64 }

func (o *countingObserver) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
	if r.Method == "tools/call" {
		o.began.Add(1)
	}
	return ctx, []byte(`{"of":"the host"}`)
}

func (o *countingObserver) RequestEnded(_ context.Context, r monitor.RequestEnd) {
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

func (o *panickingObserver) RequestStarted(ctx context.Context, r monitor.RequestStart) (context.Context, []byte) {
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
