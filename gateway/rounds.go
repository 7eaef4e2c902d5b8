package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// If client and server speak 2026-07-28, the gateway passes on unchanged which input the server requires, and
// what the client answers with its next request. Only the requestState is sealed on the way (MCP, multi
// round-trip requests).

// upstreamRequest is the request at a server that a request of a client causes.
type upstreamRequest struct {
	request *request
	server  string             // as in serverOf
	trip    *roundtrip.Request // the request, for package roundtrip; set by perform, since 2026-07-28 only

	send     func(context.Context, ...facade.CallOption) (json.RawMessage, error) // waits for a server that is down
	answerTo func(error) (json.RawMessage, error)                                 // the answer to an error of send
	offered  func() bool                                                          // whether the target still is; nil: yes
}

// resumeHeld continues the held call that the request names. Callers try it before they look for the
// target: meanwhile a reload may have hidden or renamed the target. ok is false if the request names no
// held call.
func (r *request) resumeHeld(answerTo func(error) (json.RawMessage, error)) (result json.RawMessage, ok bool, err error) {
	next := r.params.next
	if len(next.RequestState) == 0 || !roundtrip.IsHeld(next.RequestState) {
		return nil, false, nil
	}
	if isProgressToken(r.params.progressToken) {
		r.token = r.params.progressToken
	}
	result, r.failed, err = r.gateway.holds.Resume(r.session.owner, r.forRoundtrip(), next.RequestState, next.InputResponses)
	if failed := new(mcpvisor.Error); errors.As(err, &failed) {
		r.failed = true
		result, err = answerTo(err)
	}
	return result, true, err
}

// perform makes the request and returns its answer. Callers try resumeHeld first.
func (u *upstreamRequest) perform() (result json.RawMessage, err error) {
	r, s, p := u.request, u.request.session, u.request.params
	if !p.modern() {
		result, r.failed, err = u.attempt(r.ctx, r.tell)
		return result, err
	}
	u.trip = r.forRoundtrip()
	if string(p.next.RequestState) == "null" {
		p.next.RequestState = nil
	}
	if len(p.next.RequestState) > 0 { // of the server itself: resumeHeld takes those of held calls
		if p.next.RequestState, err = s.gateway.holds.OpenResult(s.owner, u.trip, u.server, p.next.RequestState); err != nil {
			return nil, err
		}
	}
	if p.declared == 0 {
		result, r.failed, err = u.attempt(r.ctx, r.tell)
		return result, err
	}
	call := s.tripClient(p.declared).Begin(s.holdContext, u.trip, roundtrip.Target{Server: u.server, Offered: u.offered}, func(ctx context.Context, h *roundtrip.Call) (json.RawMessage, bool, error) {
		return u.attempt(ctx, h.Tell)
	})
	result, r.failed, err = call.Await(u.trip)
	return result, err
}

// attempt makes the request. failed says that the result is an error of the call. tell is
// as in callOptions.
func (u *upstreamRequest) attempt(ctx context.Context, tell func(func(roundtrip.Told))) (result json.RawMessage, failed bool, err error) {
	s := u.request.session
	opts, err := u.callOptions(tell)
	if err != nil {
		return nil, false, err
	}
	result, err = u.send(ctx, opts...)
	if err == nil && !bytes.HasPrefix(result, []byte("{")) { // no client can read it
		err = &mcpvisor.Error{Server: u.server, Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("the result is not a JSON object")}
	}
	switch {
	case err != nil:
		s.gateway.elicitations.BeginRequired(s.elicitedSession(), err)
		result, err = u.answerTo(err)
		return result, true, err
	case u.request.params.modern():
		// Results of servers before 2026-07-28 have no resultType.
		return message.WithResultType(s.gateway.holds.SealResult(s.owner, u.trip, u.server, result)), false, nil
	}
	return result, false, nil
}

// callOptions returns the options of the request. They carry its _meta and its handlers for
// questions. They pass its log messages on to its client only, and its progress if the request has a
// token (MCP, basic, utilities, progress). tell calls a function with the receiver of these reports.
func (u *upstreamRequest) callOptions(tell func(func(roundtrip.Told))) ([]facade.CallOption, error) {
	r, s, p := u.request, u.request.session, u.request.params
	if p.modern() {
		s.introduce(p.client, modernVersion)
	}
	var opts []facade.CallOption
	if label := s.peer.Label(); label != "" { // for the record of the call
		opts = append(opts, relay.WithClientName(label))
	}
	if name := s.holdOwner.Principal; name != "" {
		opts = append(opts, relay.WithPrincipal(name))
	}
	if h := s.questions.handlers.Load(); h != nil {
		s.questions.begin(r, u.server)
		opts = append(opts, relay.WithHandlers(h))
	}
	if p.declared != 0 {
		opts = append(opts, relay.WithHandlers(s.tripClient(p.declared).Handlers()))
	}
	if p.relays() {
		opts = append(opts, relay.WithRelay(p.next))
	}
	if p.meta != nil {
		opts = append(opts, facade.WithMeta(p.meta))
	}
	level := s.notify.LevelOfLogs()
	if p.modern() {
		level = notices.NoLogs
		if p.logLevel != "" {
			if level = slices.Index(notices.LogLevels, p.logLevel); level < 0 {
				return nil, message.InvalidParams("unknown log level " + message.Quote(p.logLevel))
			}
		}
	}
	if level < notices.NoLogs {
		opts = append(opts, facade.WithLogMessages(notices.LogLevels[level], func(m mcpvisor.LogMessage) {
			if slices.Index(notices.LogLevels, m.Level) >= level { // another session may have set a lower level
				tell(func(t roundtrip.Told) { t.ReportLog(m) })
			}
		}))
	}
	if !isProgressToken(p.progressToken) {
		return opts, nil
	}
	r.token = p.progressToken
	return append(opts, facade.WithProgress(func(p mcpvisor.Progress) { tell(func(t roundtrip.Told) { t.ReportProgress(p) }) })), nil
}

// forRoundtrip describes the request for package roundtrip.
func (r *request) forRoundtrip() *roundtrip.Request {
	return &roundtrip.Request{Ctx: r.ctx, Method: r.Method, Params: r.Params, Bytes: r.bytes, Told: r}
}

// ReportProgress implements [roundtrip.Told].
func (r *request) ReportProgress(p mcpvisor.Progress) { r.exchange.out.addProgress(r, p) }

// ReportLog implements [roundtrip.Told].
func (r *request) ReportLog(m mcpvisor.LogMessage) { r.exchange.out.addLog(r, m) }

// Hold implements [roundtrip.Told].
func (r *request) Hold(giveUp func()) { r.unhold.Store(&giveUp) }

// tell calls f with the receiver of reports about a call that is not held.
func (r *request) tell(f func(roundtrip.Told)) { f(r) }

// tripClient returns the client of the session that declares these capabilities in its requests.
func (s *session) tripClient(declared uint16) *roundtrip.Client {
	s.tripMu.Lock()
	defer s.tripMu.Unlock()
	made := s.tripClients[declared]
	if made == nil {
		made = s.gateway.holds.NewClient(s.owner, s.holdOwner, declared)
		if s.tripClients == nil {
			s.tripClients = map[uint16]*roundtrip.Client{}
		}
		s.tripClients[declared] = made
	}
	return made
}

// DefaultMaxWait is the default of [WithMaxWait].
const DefaultMaxWait = 10 * time.Second

// WithMaxWait sets how long a request waits, before it is sent, for a server that is down. A request that finds the
// server while it is being replaced waits 30 s longer, because calls in flight may end first. It fails at
// once if d is 0 or less, or if the next attempt to start the server is due later than that. When the
// wait is over, the request fails with the error that it had before the wait. Default: [DefaultMaxWait].
func WithMaxWait(d time.Duration) Option { return func(o *options) { o.maxWait = d } }

// whenUp makes a request through the client that find returns. If the request was not sent because the
// server is down or its copy has been replaced, whenUp repeats it once there is another one, within MaxWait. A request
// that may have reached the server is not repeated.
func (g *gateway) whenUp(ctx context.Context, find func() (*facade.Client, error), request func(*facade.Client) error) error {
	var end time.Time // of the wait
	var tried struct {
		client     *facade.Client
		gen, epoch uint64
	}
	var replaced *facade.Client
	var refused error // by replaced
	for {
		client, err := find()
		at := g.client // it has the server to wait for
		switch {
		case err == nil && client == replaced: // no other one has replaced it
			return refused
		case err == nil:
			if at, err = client, request(client); err == nil {
				return nil
			}
		}
		var full *lastCopyEnds
		isFull := errors.As(err, &full)
		server, kind := notSent(err)
		isReplaced := kind == mcpvisor.ErrClosed && at != g.client
		if g.opts.maxWait <= 0 || !isFull && !isReplaced && !isDown(kind) {
			return withoutWait(err)
		}
		status, again := at.ServerStatus(server)
		if end.IsZero() {
			end = time.Now().Add(g.opts.maxWait)
			if isFull || isReplaced || status.State == supervisor.StateStopping {
				end = end.Add(defaults.DrainTimeout) // its calls in flight may end first
			}
		}
		waiting, cancel := overdue.WithDeadline(ctx, end)
		switch {
		case isReplaced:
			again, replaced, refused = waiting.Err() == nil, client, err
		case isFull:
			select {
			case <-full.ended:
				again = true
			case <-waiting.Done():
			}
		case again:
			again = (status.RetryAt == nil || !status.RetryAt.After(end)) && at.WaitReady(waiting, server) == nil
			last := tried
			status, _ = at.ServerStatus(server)
			tried.client, tried.gen, tried.epoch = at, status.Gen, status.Epoch
			again = again && tried != last // the same: it is ready, and has refused
		}
		cancel()
		if !again {
			return withoutWait(err)
		}
	}
}

// whenUp is gateway.whenUp for the incarnation of a server that the session uses.
func (t *tenancy) whenUp(ctx context.Context, server string, request func(*facade.Client) error) error {
	err := t.gateway.whenUp(ctx, func() (*facade.Client, error) { return t.clientOf(server) }, request)
	if errors.Is(err, errNeverReady) && !t.gateway.isCopied(server) {
		return request(t.gateway.client) // which says why
	}
	return err
}

// notSent returns why a request was not sent, and to which server; empty if it may have been.
func notSent(err error) (server string, kind mcpvisor.ErrorKind) {
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent {
		return e.Server, e.Kind
	}
	return "", ""
}

// isDown reports whether a request was not sent because its server is down.
func isDown(kind mcpvisor.ErrorKind) bool {
	return kind == mcpvisor.ErrUnavailable || kind == mcpvisor.ErrCrashed || kind == mcpvisor.ErrEnded
}
