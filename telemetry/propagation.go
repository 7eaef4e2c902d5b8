package telemetry

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Members of params._meta that carry trace context, with the values of the W3C headers of
// the same names (SEP-414).
const (
	memberParent  = "traceparent"
	memberState   = "tracestate"
	memberBaggage = "baggage"
)

// maxTraceMember is the longest member, in bytes, that is read from a server. The W3C
// recommends to keep 512 bytes of tracestate.
const maxTraceMember = 4096

// contextSender decides which servers get trace context. It does not change.
type contextSender struct {
	without map[string]bool // servers that get none
	baggage bool            // it is sent, too
}

// members returns the trace context of ctx as a JSON object of members of _meta; nil if
// ctx has no span and nothing else to send.
func (s *contextSender) members(ctx context.Context, server string) []byte {
	if s.without[server] {
		return nil
	}
	var b []byte
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		id, span := sc.TraceID(), sc.SpanID()
		b = append(make([]byte, 0, 80), `{"`+memberParent+`":"00-`...)
		b = append(hex.AppendEncode(b, id[:]), '-')
		b = append(hex.AppendEncode(b, span[:]), '-')
		b = hex.AppendEncode(b, []byte{byte(sc.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))})
		b = append(b, '"')
		if sc.TraceState().Len() > 0 {
			b = appendMember(b, memberState, sc.TraceState().String())
		}
	}
	if s.baggage {
		if bag := baggage.FromContext(ctx); bag.Len() > 0 {
			b = appendMember(b, memberBaggage, bag.String())
		}
	}
	if b == nil {
		return nil
	}
	return append(b, '}')
}

// appendMember appends a member with a text to an object that has no end yet.
func appendMember(b []byte, name, value string) []byte {
	text, err := json.Marshal(value)
	if err != nil { // no string is refused
		return b
	}
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	b = append(append(append(b, '"'), name...), `":`...)
	return append(b, text...)
}

// remoteSpan returns ctx with the span that the _meta of a server, or of a caller, names as its parent;
// ctx itself if it names none. Baggage is not taken over: the host would pass it on.
func remoteSpan(ctx context.Context, meta json.RawMessage) context.Context {
	var members struct {
		Parent json.RawMessage `json:"traceparent"`
		State  json.RawMessage `json:"tracestate"`
	}
	if json.Unmarshal(meta, &members) != nil {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for name, value := range map[string]json.RawMessage{memberParent: members.Parent, memberState: members.State} {
		var text string
		if len(value) <= maxTraceMember && json.Unmarshal(value, &text) == nil {
			carrier[name] = text
		}
	}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}
