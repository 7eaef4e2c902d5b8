package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Route makes calls at one server on another node, where it was placed with one epoch. It is a
// [Caller]. The names of tools and prompts are qualified, as in "fs/list", or aliases that the
// other node knows. relay.WithResultRoom has no effect: the caller owns the result.
//
// Errors are those of the facade, and: ErrUnavailable with OutcomeNotSent while the node cannot be
// reached, and with the causes [ErrMoved] and [ErrLeaseOver]; ErrCrashed with OutcomeUnknown if the
// node is gone before its answer.
type Route struct {
	client *Client
	server string
	epoch  uint64
	over   <-chan struct{}
	until  time.Time
	buffer *budget.Budget
	into   *budget.Share
	// settings are those of With; nil: none.
	settings *relay.CallSettings
}

// With returns the route for calls whose options are applied to these settings. The settings must not change. A call
// with settings costs less than one with options.
func (r Route) With(settings *relay.CallSettings) Route {
	r.settings = settings
	return r
}

// Within returns the route for calls that also end, with ErrCanceled, when over is closed, and, with
// ErrTimeout, at the time until. A nil channel and the zero time have no effect. If the answer has begun to
// arrive when over is closed, the call still gets it, provided that the rest comes within 10 s. Within costs
// less than a context for each call.
func (r Route) Within(over <-chan struct{}, until time.Time) Route {
	r.over, r.until = over, until
	return r
}

// Into returns the route for calls whose large results (64 KiB or more) take room in a budget before they
// release the room that they have in ClientConfig.RoomBytes. So the other node sends no more results than
// this one has room for. share, if it is not nil, gets the room, and the caller releases it; otherwise the
// room is released when the call returns. If for a while no room becomes free that the result could use,
// the call fails with ErrOverloaded.
func (r Route) Into(buffer *budget.Budget, share *budget.Share) Route {
	r.buffer, r.into = buffer, share
	return r
}

var _ Caller = Route{}

// Route returns the route to a server that was placed on the node of the client with this epoch.
func (c *Client) Route(server string, epoch uint64) Route {
	return Route{client: c, server: server, epoch: epoch}
}

// CallToolRaw implements [Caller].
func (r Route) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...facade.CallOption) (json.RawMessage, error) {
	return r.do(ctx, "", &call{method: methodTool, target: tool, args: args}, opts)
}

// ReadResourceRaw implements [Caller].
func (r Route) ReadResourceRaw(ctx context.Context, server, uri string, opts ...facade.CallOption) (json.RawMessage, error) {
	if server != r.server {
		return nil, &mcpvisor.Error{Server: server, Op: "read " + server + " " + uri, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("the route is that of server %q", r.server)}
	}
	return r.do(ctx, "", &call{method: methodRead, target: uri}, opts)
}

// GetPromptRaw implements [Caller].
func (r Route) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...facade.CallOption) (json.RawMessage, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return r.do(ctx, "", &call{method: methodPrompt, target: prompt, args: encoded}, opts)
}

// CompleteRaw implements [Caller].
func (r Route) CompleteRaw(ctx context.Context, server string, request facade.CompletionRequest, opts ...facade.CallOption) (json.RawMessage, error) {
	op := "complete " + request.Argument + " of " + mcpvisor.Qualify(server, request.Prompt+request.Template)
	encoded, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return r.do(ctx, op, &call{method: methodComplete, args: encoded}, opts)
}

// do makes a call. An error gets op as its Op, or the Op of the call if op is empty.
func (r Route) do(ctx context.Context, op string, c *call, opts []facade.CallOption) (json.RawMessage, error) {
	c.server, c.epoch, c.over, c.ends, c.buffer, c.into = r.server, r.epoch, r.over, r.until, r.buffer, r.into
	if r.settings != nil {
		c.settings = *r.settings
	}
	result, e := r.client.call(ctx, c, opts)
	if e == nil {
		return result, nil
	}
	if e.Op = op; op == "" {
		e.Op = c.op()
	}
	return nil, e
}

// call makes a call with its settings, to which it applies opts first, and waits for the end of the call.
func (c *Client) call(ctx context.Context, request *call, opts []facade.CallOption) (json.RawMessage, *mcpvisor.Error) {
	settings := &request.settings
	if len(opts) > 0 {
		var err error
		if *settings, err = relay.SettingsOf(*settings, opts...); err != nil {
			return nil, &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
		}
	}
	if ctx.Err() != nil {
		return nil, &mcpvisor.Error{Server: request.server, Epoch: request.epoch, Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: context.Cause(ctx)}
	}
	if deadline, ok := ctx.Deadline(); ok {
		request.left = max(time.Until(deadline), time.Nanosecond)
	}
	if !request.ends.IsZero() {
		if left := time.Until(request.ends); request.left == 0 || left < request.left {
			request.left = max(left, time.Nanosecond)
		} else {
			request.ends = time.Time{} // the context ends first
		}
	}
	l, err := c.current()
	if err != nil {
		return nil, refused(request.server, request.epoch, fmt.Errorf("node %q cannot be reached: %w", c.config.Node, err))
	}
	inFlight, most := &c.calls, c.config.MaxCalls
	if request.method == methodNotices {
		inFlight, most = &c.notices, maxNoticeStreams
	}
	if inFlight.Add(1) > int64(most) {
		inFlight.Add(-1)
		return nil, &mcpvisor.Error{Server: request.server, Epoch: request.epoch, Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: refusedRetryAfter,
			Cause: fmt.Errorf("%d calls of node %q are in flight", most, c.config.Node)}
	}
	defer inFlight.Add(-1)
	if since := request.since(); l.version < since {
		return nil, refused(request.server, request.epoch, fmt.Errorf("%w: node %q speaks version %d of the protocol, and this needs %d", ErrUnsupported, c.config.Node, l.version, since))
	}
	request.progress, request.logs = settings.Progress != nil, settings.LogMessages != nil
	number := l.next.Add(1)
	s := l.streams[number%streamsPerLink]
	p := &pending{number: number, server: request.server, epoch: request.epoch, handlers: settings.Handlers, relay: settings.TaskRelay, notices: request.notices, waiting: &c.reportBytes, maxResult: c.config.MaxResultBytes, wake: make(chan struct{}, 1)}
	if request.method == methodCatalog {
		p.maxResult = encodedlists.MaxBytes
	}
	if p.handlers != nil {
		request.answers, request.all = declared(p.handlers)
		if request.refuses = request.answers == (transport.Offer{}) && !request.all && l.version >= 2; request.refuses {
			p.handlers = nil
		}
	}
	if p.handlers != nil { // calls with the same handlers share a stream, and the number of the handlers there
		var leave func()
		p.answerer, leave = l.join(p.handlers)
		p.leave = leave
		request.answerer = p.answerer.id
		s = l.streams[request.answerer%streamsPerLink]
	}
	return s.call(ctx, p, request)
}

// join counts a call with handlers. The caller calls leave when the call has ended.
func (l *link) join(h *transport.CallHandlers) (ref *answererRef, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref = l.answerers[h]
	if ref == nil {
		l.lastAnswerer++
		ref = &answererRef{id: l.lastAnswerer}
		ref.ctx, ref.cancel = context.WithCancel(context.Background())
		l.answerers[h] = ref
	}
	ref.calls++
	return ref, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if ref.calls--; ref.calls == 0 {
			delete(l.answerers, h)
			ref.cancel()
		}
	}
}

// call sends a call on the stream and waits for its end.
func (s *clientStream) call(ctx context.Context, p *pending, request *call) (result json.RawMessage, e *mcpvisor.Error) {
	t := &framing.Message{What: messageCall, Call: p.number, Body: request.append(make([]byte, 0, len(request.args)+len(request.server)+len(request.target)+64))}
	p.sent = t
	s.mu.Lock()
	s.pending[p.number] = p
	few := len(s.pending) <= fewCalls
	s.mu.Unlock()
	ended := false
	defer func() { // also when a function of the caller panics
		s.mu.Lock()
		delete(s.pending, p.number)
		s.mu.Unlock()
		p.close()
		if p.leave != nil { // before the server learns that the caller has left: it asks another call then
			p.leave()
		}
		if !ended && !s.Withdraw(t) {
			s.Send(messageCancel, p.number, nil)
		}
	}()
	send := s.Add
	if few {
		send = s.SendNow
	}
	if !send(t) && s.left.Load() {
		p.finish(nil, refused(request.server, request.epoch, errLeaving(s.link.client.config.Node)))
	} // if the stream has ended, the loop below finds out
	var expired <-chan time.Time
	if !request.ends.IsZero() {
		timer := time.NewTimer(time.Until(request.ends))
		defer timer.Stop()
		expired = timer.C
	}
	over, late := request.over, (<-chan time.Time)(nil)
	giveUp := func(kind mcpvisor.ErrorKind, why error) *mcpvisor.Error {
		e := &mcpvisor.Error{Server: request.server, Epoch: request.epoch, Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Cause: why}
		if !s.Withdraw(t) {
			s.Send(messageCancel, p.number, nil)
			e.Outcome = mcpvisor.OutcomeUnknown
		}
		return e
	}
	for {
		select {
		case <-p.wake:
			reports, dropped, finished := p.next()
			for _, r := range reports {
				r.deliver(request)
			}
			if dropped && p.notices != nil {
				p.notices.notify(transport.Notice{Kind: transport.Gap})
			}
			if finished {
				ended = true
				return p.enter(ctx, request)
			}
		case <-ctx.Done():
			ended = true
			return nil, giveUp(mcpvisor.ErrCanceled, context.Cause(ctx))
		case <-over:
			if p.hasBegun() {
				timer := time.NewTimer(lateAnswer)
				defer timer.Stop()
				over, late = nil, timer.C
				continue
			}
			ended = true
			return nil, giveUp(mcpvisor.ErrCanceled, errOver)
		case <-late:
			ended = true
			return nil, giveUp(mcpvisor.ErrCanceled, errOver)
		case <-expired:
			ended = true
			return nil, giveUp(mcpvisor.ErrTimeout, errUntil)
		case <-s.Ended():
			ended = true
			if _, _, finished := p.next(); finished {
				return p.enter(ctx, request)
			}
			gone := fmt.Errorf("node %q is gone: %w", s.link.client.config.Node, s.Err())
			if s.Withdraw(t) {
				return nil, refused(request.server, request.epoch, gone)
			}
			return nil, &mcpvisor.Error{Server: request.server, Epoch: request.epoch, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown, Cause: gone}
		}
	}
}

// fewCalls bounds the calls in flight on a stream that sends messages at once (Stream.SendNow).
const fewCalls = 2

// lateAnswer is how long a call waits for the rest of its answer when Route.Within says that it is over.
const lateAnswer = 10 * time.Second

var (
	errOver  = errors.New("the session of the caller is over")
	errUntil = errors.New("the call takes too long as a whole")
)
