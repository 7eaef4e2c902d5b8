package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// RequestStart describes a request for a registration.
func (v *View) RequestStart(method, target string) monitor.RequestStart {
	r := monitor.RequestStart{Server: v.Name, Gen: v.Gen, Method: method, Target: target, Transport: v.Spec.TransportKind()}
	if v.State == supervisor.StateReady {
		r.Epoch, r.Protocol = v.current.epoch, v.protocol
	}
	return r
}

// observerRef holds an observer, which is never nil.
type observerRef struct{ monitor.Observer }

// Observer returns the observer of requests; nil without one. Safe for concurrent use,
// as are the other methods of this file.
func (rt *Runtime) Observer() monitor.Observer {
	if ref := rt.observer.Load(); ref != nil {
		return ref.Observer
	}
	return nil
}

// UpdateObserver replaces the observer by what next returns for it; nil means none. A request
// that has begun keeps the observer that saw its start. next must not call the runtime.
func (rt *Runtime) UpdateObserver(next func(now monitor.Observer) monitor.Observer) {
	rt.observing.Lock()
	defer rt.observing.Unlock()
	if o := next(rt.Observer()); o != nil {
		rt.observer.Store(&observerRef{o})
	} else {
		rt.observer.Store(nil)
	}
}

// RequestStarted shows an observer the start of a request. meta is what travels in the
// _meta of the request; nil for nothing.
func (rt *Runtime) RequestStarted(ctx context.Context, o monitor.Observer, r monitor.RequestStart) (next context.Context, meta json.RawMessage) {
	next = ctx
	defer func() {
		if v := recover(); v != nil {
			next, meta = ctx, nil
			rt.logObserver(hostcall.PanicError("observer", v))
		}
	}()
	observed, meta := o.RequestStarted(ctx, r)
	if observed != nil {
		next = observed
	}
	if len(meta) == 0 {
		return next, nil
	}
	if err := checkMeta(meta); err != nil {
		rt.badMeta.Do(func() { rt.logObserver(err) })
		meta = nil
	}
	return next, meta
}

// RequestEnded shows an observer the end of a request. Call it once for each
// RequestStarted.
func (rt *Runtime) RequestEnded(ctx context.Context, o monitor.Observer, r monitor.RequestEnd) {
	defer func() {
		if v := recover(); v != nil {
			rt.logObserver(hostcall.PanicError("observer", v))
		}
	}()
	o.RequestEnded(ctx, r)
}

// apart calls f, which shows the observer a request that no caller of the host makes, in a goroutine of its
// own: the observer may end it.
func (rt *Runtime) apart(f func()) {
	if err := hostcall.Call("observer", func() error { f(); return nil }); err != nil {
		rt.logObserver(err)
	}
}

// logObserver logs what the observer did wrong.
func (rt *Runtime) logObserver(err error) {
	rt.logger.Line(func(log *zerolog.Logger) { log.Error().Err(err).Msg("the observer failed; the request continues") })
}

// checkMeta returns why a _meta object of the observer is not sent; nil if it is.
func checkMeta(meta json.RawMessage) error {
	if !json.Valid(meta) {
		return errors.New("what the observer returned for _meta is not JSON")
	}
	err := jsonscan.EachMember(meta, func(name string, _ []byte) error {
		if name == "progressToken" || strings.HasPrefix(name, "io.modelcontextprotocol/") {
			return fmt.Errorf("the observer may not set %q in _meta: it belongs to the protocol", name)
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		return errors.New("what the observer returned for _meta is not a JSON object")
	}
	return err
}

// observedSession shows the observer the requests that the client makes by itself.
type observedSession struct {
	transport.Session
	rt  *Runtime
	inc *incarnation
}

// listing returns the session of an incarnation for the requests of its lists.
func (rt *Runtime) listing(inc *incarnation) transport.Session {
	return observedSession{inc.session, rt, inc}
}

// Request implements [transport.Session].
func (s observedSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	o := s.rt.Observer()
	if o == nil {
		return s.Session.Request(ctx, r)
	}
	start, id := s.inc.requestStart(r.Method), int64(0)
	s.rt.apart(func() { ctx, r.Meta = s.rt.RequestStarted(ctx, o, start) }) //nolint:fatcontext // it runs once, before apart returns
	r.ID = &id
	if r.Began.IsZero() {
		r.Began = time.Now()
	}
	result, err := s.Session.Request(ctx, r)
	end := monitor.RequestEnd{RequestStart: start, Began: r.Began, Took: time.Since(r.Began), ResultBytes: len(result), RequestID: id}
	s.inc.setError(&end, err)
	s.rt.apart(func() { s.rt.RequestEnded(ctx, o, end) })
	return result, err
}

// requestStart describes a request between the client and an incarnation.
func (i *incarnation) requestStart(method string) monitor.RequestStart {
	return monitor.RequestStart{Server: i.server, Gen: i.gen, Epoch: i.epoch, Method: method,
		Protocol: i.session.Info().ProtocolVersion, Transport: i.spec.TransportKind()}
}

// setError describes how a request of an incarnation ended.
func (i *incarnation) setError(end *monitor.RequestEnd, err error) {
	if end.Outcome = mcpvisor.OutcomeAnswered; err == nil {
		return
	}
	end.Err = i.ownError(err)
	end.Outcome = end.Err.Outcome
}

// observeServerRequest shows the observer a request of the server. It implements
// [transport.ServerRequestObserver].
func (r *portRef) observeServerRequest(ctx context.Context, method string, params json.RawMessage) (context.Context, func(json.RawMessage, error)) {
	o := r.rt.Observer()
	if o == nil {
		return ctx, func(json.RawMessage, error) {}
	}
	start := r.inc.requestStart(method)
	start.Incoming, start.Meta = true, metaOf(params)
	began := time.Now()
	r.rt.apart(func() { ctx, _ = r.rt.RequestStarted(ctx, o, start) }) //nolint:fatcontext // it runs once, before apart returns
	return ctx, func(result json.RawMessage, err error) {
		end := monitor.RequestEnd{RequestStart: start, Began: began, Took: time.Since(began), ResultBytes: len(result), Outcome: mcpvisor.OutcomeAnswered}
		if err != nil {
			end.Err = &mcpvisor.Error{Server: start.Server, Gen: start.Gen, Epoch: start.Epoch, Op: method,
				Kind: mcpvisor.ErrInputRequired, Outcome: mcpvisor.OutcomeAnswered, Cause: err}
		}
		r.rt.apart(func() { r.rt.RequestEnded(ctx, o, end) })
	}
}

// metaOf returns the _meta member of params; nil if it is no object.
func metaOf(params json.RawMessage) json.RawMessage {
	if meta := jsonscan.Member(params, "_meta"); len(meta) > 0 && meta[0] == '{' {
		return meta
	}
	return nil
}
