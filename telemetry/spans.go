package telemetry

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Keys of attributes that only spans have.
const (
	keyOperation  = attribute.Key("gen_ai.operation.name")
	keyRequestID  = attribute.Key("jsonrpc.request.id")
	keyStatusCode = attribute.Key("rpc.response.status_code")
	keyEpochSpan  = attribute.Key("mcpvisor.server.epoch")
	keyOutcome    = attribute.Key("mcpvisor.call.outcome")
)

// maxSpanKinds is how many kinds of spans have their options cached. A further kind costs
// a few allocations for each span.
const maxSpanKinds = 2000

// spanKey identifies a kind of spans.
type spanKey struct {
	incoming                          bool
	server, method, target, transport string
}

// spanKind is how spans of one kind start. It does not change.
type spanKind struct {
	name    string
	options []trace.SpanStartOption
	// attributes are those in options, for a span that the host has started.
	attributes []attribute.KeyValue
}

// spans makes a span for each request. Safe for concurrent use.
type spans struct {
	tracer trace.Tracer // nil: no spans
	known  atomic.Pointer[map[spanKey]*spanKind]
	mu     sync.Mutex // held to replace known
}

func newSpans(provider trace.TracerProvider) *spans {
	s := new(spans)
	if provider != nil {
		s.tracer = provider.Tracer(scope)
	}
	s.known.Store(&map[spanKey]*spanKind{})
	return s
}

// start starts the span of a request. Its parent is that of ctx, or else the one that the _meta of the caller names.
func (s *spans) start(ctx context.Context, r *monitor.RequestStart) context.Context {
	kind := s.kindOf(r)
	if r.Incoming {
		return s.startIncoming(ctx, kind, r)
	}
	if span := joined(ctx); span != nil {
		span.SetAttributes(kind.attributes...)
		return ctx
	}
	if len(r.Meta) > 0 && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = remoteSpan(ctx, r.Meta)
	}
	ctx, _ = s.tracer.Start(ctx, kind.name, kind.options...) //nolint:spancheck // end ends it
	return ctx
}

// startIncoming starts the span of a request of a server. Its parent is the span that the
// server names, with a link to the one that ctx has; or else the latter.
func (s *spans) startIncoming(ctx context.Context, kind *spanKind, r *monitor.RequestStart) context.Context {
	ambient := trace.SpanContextFromContext(ctx)
	ctx = remoteSpan(ctx, r.Meta)
	options := kind.options
	if remote := trace.SpanContextFromContext(ctx); remote.IsRemote() && ambient.IsValid() && !remote.Equal(ambient) {
		options = append(options[:len(options):len(options)], trace.WithLinks(trace.Link{SpanContext: ambient}))
	}
	ctx, _ = s.tracer.Start(ctx, kind.name, options...) //nolint:spancheck // end ends it
	return ctx
}

// end ends the span of a request; ctx is what start returned.
func (s *spans) end(ctx context.Context, r *monitor.RequestEnd) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		setEnd(span, r)
	}
	if r.Incoming || joined(ctx) == nil {
		span.End()
	}
}

// setEnd sets what is known at the end of a request. Messages of errors are left out: they
// can hold arguments.
func setEnd(span trace.Span, r *monitor.RequestEnd) {
	all := make([]attribute.KeyValue, 0, 6)
	if r.Protocol != "" {
		all = append(all, keyProtocol.String(r.Protocol))
	}
	if r.Epoch != 0 {
		all = append(all, keyEpochSpan.Int64(int64(r.Epoch)))
	}
	if r.RequestID != 0 {
		all = append(all, keyRequestID.String(strconv.FormatInt(r.RequestID, 10)))
	}
	if failure := errorType(r); failure != "" {
		if r.Err != nil {
			all = append(all, keyOutcome.String(string(r.Outcome)))
			if code, ok := rpcCode(r.Err); ok && r.Err.Kind == mcpvisor.ErrRPC {
				failure = strconv.FormatInt(code, 10) // spans need no bound
				all = append(all, keyStatusCode.String(failure))
			}
		}
		all = append(all, keyErrorType.String(failure))
		span.SetStatus(codes.Error, failure)
	}
	span.SetAttributes(all...)
}

// kindOf returns how the span of a request starts.
func (s *spans) kindOf(r *monitor.RequestStart) *spanKind {
	key := spanKey{incoming: r.Incoming, server: r.Server, method: r.Method, transport: r.Transport}
	if r.Incoming {
		key.method = knownMethod(r.Method)
	} else if r.Listed && targetKey(r.Method) != "" {
		key.target = r.Target
	}
	if kind := (*s.known.Load())[key]; kind != nil {
		return kind
	}
	kind := newSpanKind(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := *s.known.Load(); len(known) < maxSpanKinds {
		next := maps.Clone(known)
		next[key] = kind
		s.known.Store(&next)
	}
	return kind
}

func newSpanKind(key spanKey) *spanKind {
	k := &spanKind{name: key.method, attributes: []attribute.KeyValue{keyMethod.String(key.method), keyServer.String(key.server)}}
	if key.target != "" {
		k.name += " " + key.target
		k.attributes = append(k.attributes, targetKey(key.method).String(key.target))
	}
	if key.method == "tools/call" {
		k.attributes = append(k.attributes, keyOperation.String("execute_tool"))
	}
	if network := networkTransport(key.transport); network != "" {
		k.attributes = append(k.attributes, keyTransport.String(network))
	}
	side := trace.SpanKindClient
	if key.incoming {
		side = trace.SpanKindServer
	}
	k.options = []trace.SpanStartOption{trace.WithSpanKind(side), trace.WithAttributes(k.attributes...)}
	return k
}

// joinKey is the context key of the SpanContext that JoinSpan was called for.
type joinKey struct{}

// JoinSpan returns a context whose requests set their attributes on its current span and
// make no span of their own. Use it if the host has started a span for the execution of a
// tool, as frameworks for agents do: the conventions ask for one span, not two. It has no
// effect on contexts that get another span later, nor on a context without a span.
func JoinSpan(ctx context.Context) context.Context {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ctx
	}
	return context.WithValue(ctx, joinKey{}, span)
}

// joined returns the current span if JoinSpan was called for it.
func joined(ctx context.Context) trace.Span {
	want, ok := ctx.Value(joinKey{}).(trace.SpanContext)
	if !ok {
		return nil
	}
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().Equal(want) {
		return nil
	}
	return span
}
