package actors

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// observedSession shows the observer the requests that the client makes by itself.
type observedSession struct {
	transport.Session
	rt  *Runtime
	inc *incarnation
}

// listing returns the session of an incarnation for the requests of its lists.
func (rt *Runtime) listing(inc *incarnation) transport.Session {
	if rt.opts.Observer == nil {
		return inc.session
	}
	return observedSession{inc.session, rt, inc}
}

// Request implements [transport.Session].
func (s observedSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	start, id := s.inc.requestStart(r.Method), int64(0)
	ctx, r.Meta = s.rt.RequestStarted(ctx, start)
	r.ID = &id
	if r.Began.IsZero() {
		r.Began = time.Now()
	}
	result, err := s.Session.Request(ctx, r)
	end := mcpvisor.RequestEnd{RequestStart: start, Began: r.Began, Took: time.Since(r.Began), ResultBytes: len(result), RequestID: id}
	s.inc.setError(&end, err)
	s.rt.RequestEnded(ctx, end)
	return result, err
}

// CheckInputSchema implements [transport.InputSchemaChecker].
func (s observedSession) CheckInputSchema(schema json.RawMessage) error {
	if checker, ok := s.Session.(transport.InputSchemaChecker); ok {
		return checker.CheckInputSchema(schema)
	}
	return nil
}

// requestStart describes a request between the client and an incarnation.
func (i *incarnation) requestStart(method string) mcpvisor.RequestStart {
	return mcpvisor.RequestStart{Server: i.server, Gen: i.gen, Epoch: i.epoch, Method: method,
		Protocol: i.session.Info().ProtocolVersion, Transport: i.spec.TransportKind()}
}

// setError describes how a request of an incarnation ended.
func (i *incarnation) setError(end *mcpvisor.RequestEnd, err error) {
	if end.Outcome = mcpvisor.OutcomeAnswered; err == nil {
		return
	}
	e := &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	if shared := (*mcpvisor.Error)(nil); errors.As(err, &shared) {
		*e = *shared // several callers may receive the same error
	}
	e.Server, e.Gen, e.Epoch = i.server, i.gen, i.epoch
	end.Err, end.Outcome = e, e.Outcome
}

// observeServerRequest shows the observer a request of the server. It implements
// [transport.ServerRequestObserver].
func (r *portRef) observeServerRequest(ctx context.Context, method string, params json.RawMessage) (context.Context, func(json.RawMessage, error)) {
	start := r.inc.requestStart(method)
	start.Incoming, start.Meta = true, metaOf(params)
	began := time.Now()
	ctx, _ = r.rt.RequestStarted(ctx, start)
	return ctx, func(result json.RawMessage, err error) {
		end := mcpvisor.RequestEnd{RequestStart: start, Began: began, Took: time.Since(began), ResultBytes: len(result), Outcome: mcpvisor.OutcomeAnswered}
		if err != nil {
			end.Err = &mcpvisor.Error{Server: start.Server, Gen: start.Gen, Epoch: start.Epoch, Op: method,
				Kind: mcpvisor.KindInputRequired, Outcome: mcpvisor.OutcomeAnswered, Cause: err}
		}
		r.rt.RequestEnded(ctx, end)
	}
}

// metaOf returns the _meta member of params; nil if it is no object.
func metaOf(params json.RawMessage) (meta json.RawMessage) {
	_ = jsonscan.EachMember(params, func(name string, value []byte) error {
		if name == "_meta" && len(value) > 0 && value[0] == '{' {
			meta = value
		}
		return nil
	})
	return meta
}
