package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// tracedFixture is a fixture whose spans a test reads, and a tracer for those of the host.
type tracedFixture struct {
	*fixture
	spans *tracetest.SpanRecorder
	host  trace.Tracer
}

func newTracedFixture(t *testing.T, more []facade.Option, opts ...Option) *tracedFixture {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	f := newFixtureWith(t, more, nil, append([]Option{WithTracerProvider(provider)}, opts...)...)
	return &tracedFixture{f, recorder, provider.Tracer("host")}
}

// ended returns the ended spans of a name.
func (f *tracedFixture) ended(name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range f.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

// attributesOf are those of a span, by key.
func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, kv := range s.Attributes() {
		all[kv.Key] = kv.Value.String()
	}
	return all
}

// A trace that began in the host reaches the server, whose span is a child of the span of
// the request. No attribute has what the call was given.
func TestSpans_reach_the_server(t *testing.T) {
	onEveryTracedServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		f := newTracedFixture(t, nil)
		f.register(spec)
		ctx, host := hostContext(t, f.host, `vendor=a"b\c`)
		child := f.callTraced(ctx)
		host.End()

		spans := f.ended("tools/call span")
		require.Len(t, spans, 1)
		span := spans[0]
		require.Equal(t, trace.SpanKindClient, span.SpanKind())
		require.Equal(t, host.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, span.SpanContext().TraceID().String(), child.TraceID)
		require.Equal(t, span.SpanContext().SpanID().String(), child.Parent)
		require.True(t, child.Sampled)
		require.Equal(t, `vendor=a"b\c`, child.State)
		require.Equal(t, codes.Unset, span.Status().Code)
		status, _ := f.client.ServerStatus("s")
		got := attributesOf(span)
		require.NotEmpty(t, got[keyRequestID])
		delete(got, keyRequestID)
		want := map[attribute.Key]string{keyMethod: "tools/call", keyTool: "span", keyOperation: "execute_tool", keyServer: "s",
			keyTransport: "pipe", keyProtocol: status.Session.ProtocolVersion, keyEpochSpan: "1"}
		if spec.HTTP != nil {
			want[keyTransport] = "tcp"
		}
		require.Equal(t, want, got)
		for _, s := range f.spans.Ended() {
			require.NotContains(t, fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status()), "canary")
		}
		require.Len(t, f.ended("tools/list"), 1)
	})
}

// The span of a call that another process began is a child of the one that it names in _meta; a span of the context comes first.
func TestSpans_parent_in_meta(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f := newTracedFixture(t, nil)
	f.register(mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(tracedServer())})
	meta := facade.WithMeta(json.RawMessage(`{"traceparent":"` + parent + `","tracestate":"a=b"}`))
	child := f.callTraced(t.Context(), meta)
	span := f.ended("tools/call span")[0]
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", child.TraceID)
	require.Equal(t, "b7ad6b7169203331", span.Parent().SpanID().String())
	require.Equal(t, span.SpanContext().SpanID().String(), child.Parent)
	require.Equal(t, "a=b", child.State)

	ctx, host := hostContext(t, f.host, "")
	child = f.callTraced(ctx, meta)
	host.End()
	require.Equal(t, host.SpanContext().TraceID().String(), child.TraceID)
	f.callTraced(t.Context(), facade.WithMeta(json.RawMessage(`{"traceparent":7}`)))
	require.False(t, f.ended("tools/call span")[2].Parent().IsValid())
}

// Without a span in the context nothing is sent, and where it is switched off neither.
func TestSpans_context_that_is_not_sent(t *testing.T) {
	members := func(t *testing.T, child childSpan, want ...string) {
		t.Helper()
		for _, name := range []string{memberParent, memberState, memberBaggage} {
			if slices.Contains(want, name) {
				require.Contains(t, child.Meta, name)
			} else {
				require.NotContains(t, child.Meta, name)
			}
		}
	}
	rows := map[string]struct {
		opts []Option
		want []string
	}{
		"switched off":        {[]Option{WithoutPropagation("x", "s"), WithBaggage()}, nil},
		"of another server":   {[]Option{WithoutPropagation("x")}, []string{memberParent, memberState}},
		"without spans":       {[]Option{WithoutSpans()}, []string{memberParent, memberState}},
		"baggage, opted in":   {[]Option{WithBaggage()}, []string{memberParent, memberState, memberBaggage}},
		"baggage and no span": {[]Option{WithBaggage(), WithoutSpans()}, []string{memberParent, memberState, memberBaggage}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			f := newTracedFixture(t, nil, row.opts...)
			f.register(mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(tracedServer())})
			ctx, host := hostContext(t, f.host, "a=b")
			defer host.End()
			member, err := baggage.NewMember("user", "42")
			require.NoError(t, err)
			bag, err := baggage.New(member)
			require.NoError(t, err)
			members(t, f.callTraced(baggage.ContextWithBaggage(ctx, bag)), row.want...)
		})
	}
	t.Run("no span", func(t *testing.T) {
		f := newTracedFixture(t, nil, WithoutSpans())
		f.register(mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(tracedServer())})
		members(t, f.callTraced(t.Context()))
		require.Empty(t, f.spans.Started())
	})
}

// A span says how its request ended; error messages are not in it.
func TestSpans_of_failures(t *testing.T) {
	f := newTracedFixture(t, nil)
	f.register(memory("s", mcptest.Script{Faults: []mcptest.Fault{
		{At: mcptest.StageCall, Tool: "add", Do: mcptest.ActionError, Code: -31999, Text: "canary"},
		{At: mcptest.StageCall, Tool: "pid", Do: mcptest.ActionExit, Code: 3},
	}}))
	for _, tool := range []string{"fail", "add", "pid", "no-such-tool"} {
		_, _ = f.client.CallTool(t.Context(), "s/"+tool, map[string]any{"text": "canary"})
		require.NoError(t, f.client.WaitReady(t.Context(), "s"))
	}
	for name, want := range map[string]map[attribute.Key]string{
		"tools/call fail": {keyErrorType: "tool_error"},
		"tools/call add":  {keyErrorType: "-31999", keyStatusCode: "-31999", keyOutcome: "answered"},
		"tools/call pid":  {keyErrorType: "crashed", keyOutcome: "unknown"},
		"tools/call":      {keyErrorType: "unknown_tool", keyOutcome: "not_sent"},
	} {
		spans := f.ended(name)
		require.Len(t, spans, 1, name)
		require.Equal(t, codes.Error, spans[0].Status().Code)
		require.Equal(t, want[keyErrorType], spans[0].Status().Description)
		got := attributesOf(spans[0])
		for _, key := range []attribute.Key{keyErrorType, keyStatusCode, keyOutcome} {
			require.Equal(t, want[key], got[key], "%s: %s", name, key)
		}
		require.NotContains(t, fmt.Sprint(spans[0].Attributes(), spans[0].Events()), "canary")
	}
	require.Len(t, f.spans.Ended(), len(f.spans.Started()), "each span has ended")
}

// A span of the host that stands for the call gets the attributes, and there is no second.
func TestJoinSpan(t *testing.T) {
	f := newTracedFixture(t, nil)
	f.register(mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(tracedServer())})
	ctx, host := f.host.Start(t.Context(), "execute_tool span")
	child := f.callTraced(JoinSpan(ctx))
	require.Equal(t, host.SpanContext().SpanID().String(), child.Parent)
	require.True(t, host.IsRecording(), "the host ends its span")
	require.Empty(t, f.ended("tools/call span"))
	inner, other := f.host.Start(JoinSpan(ctx), "inner")
	child = f.callTraced(inner)
	require.NotEqual(t, other.SpanContext().SpanID().String(), child.Parent, "another span was not joined")
	require.Len(t, f.ended("tools/call span"), 1)
	other.End()
	host.End()
	joined := attributesOf(f.ended("execute_tool span")[0])
	require.Equal(t, "span", joined[keyTool])
	require.NotEmpty(t, joined[keyRequestID])
	require.Equal(t, t.Context(), JoinSpan(t.Context()))
}

// The handler of a server's request works in the trace that the server names in _meta.
func TestSpans_of_requests_of_servers(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			var handlers []trace.SpanContext
			var fail error
			f := newTracedFixture(t, []facade.Option{facade.WithElicitationHandler(func(ctx context.Context, _ facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				handlers = append(handlers, trace.SpanContextFromContext(ctx))
				return &mcp.ElicitResult{Action: "decline"}, fail
			})})
			f.register(memory("s", mcptest.Script{Versions: []string{version}}))
			consult := func(meta string) {
				params := json.RawMessage(`{"message":"who?","requestedSchema":{"type":"object","properties":{}}` + meta + `}`)
				_, _ = f.client.CallTool(t.Context(), "s/consult", map[string]any{"method": "elicitation/create", "params": params})
			}
			consult(`,"_meta":{"traceparent":"` + parent + `","tracestate":"a=b","baggage":"user=42"}`)
			fail = errors.New("canary")
			consult(`,"_meta":{"traceparent":"not a parent"}`)
			spans := f.ended("elicitation/create")
			require.Len(t, spans, 2)
			require.Equal(t, trace.SpanKindServer, spans[0].SpanKind())
			require.Equal(t, "0af7651916cd43dd8448eb211c80319c", spans[0].SpanContext().TraceID().String())
			require.Equal(t, "b7ad6b7169203331", spans[0].Parent().SpanID().String())
			require.Equal(t, "a=b", spans[0].SpanContext().TraceState().String())
			require.Equal(t, spans[0].SpanContext(), handlers[0], "the handler works in the span")
			require.NotEqual(t, spans[0].SpanContext().TraceID(), spans[1].SpanContext().TraceID())
			require.Equal(t, codes.Error, spans[1].Status().Code)
			require.NotContains(t, fmt.Sprint(spans[1].Status(), spans[1].Attributes()), "canary")
			require.EqualValues(t, 1, f.sum(nameServerOperation, keyErrorType.String("input_required")))
		})
	}
}

// More kinds of spans than are cached have their names anyway.
func TestSpans_of_many_tools(t *testing.T) {
	f := newTracedFixture(t, nil)
	for i := range maxSpanKinds + 10 {
		f.observe(answeredRequest("s", fmt.Sprint("tool", i)))
	}
	require.Len(t, *f.tel.spans.known.Load(), maxSpanKinds)
	require.Len(t, f.ended(fmt.Sprint("tools/call tool", maxSpanKinds+9)), 1)
}
