package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// If client and server speak 2026-07-28, the gateway passes on unchanged which input the server requires, and
// what the client answers with its next request. Only the requestState is sealed on the way (MCP, multi
// round-trip requests).

// inputParams has the params about input of a request since 2026-07-28.
type inputParams struct {
	declared uint16 // what the client can be asked for, as bits of package capability
	tasks    bool   // the client declares the extension for tasks
	next     facade.Continuation
}

// readInput reads the params about input of a request.
func readInput(raw json.RawMessage, p *params) (s inputParams) {
	if !p.modern() {
		return inputParams{}
	}
	_ = jsonscan.EachMember(raw, func(key string, value []byte) error { // readParams has said what is wrong
		switch key {
		case "inputResponses":
			s.next.InputResponses = value
		case "requestState":
			s.next.RequestState = value
		case "_meta":
			declared := jsonscan.Member(value, mcp.MetaKeyClientCapabilities)
			s.declared, s.tasks = capability.OfRequest(declared), capability.HasTasksExtension(declared)
		}
		return nil
	})
	return s
}

// valid reports whether the answers, if any, are an object.
func (p *inputParams) valid() bool {
	return len(p.next.InputResponses) == 0 || p.next.InputResponses[0] == '{'
}

var errInputResponses = message.InvalidParams("the inputResponses in params are not an object")

// relays reports whether the server's need for input goes to the client. If the client can answer
// nothing, the handlers of the facade.Client answer.
func (p *inputParams) relays() bool {
	return len(p.next.InputResponses) > 0 || len(p.next.RequestState) > 0 || p.declared != 0 ||
		p.tasks // the questions of a task go to the client
}

// upstreamRequest is a request that a session makes at a server.
type upstreamRequest struct {
	server  string // as in serverOf
	meta    json.RawMessage
	of      callMeta
	modern  bool // of 2026-07-28
	input   inputParams
	request *roundtrip.Request // the client's request; set by perform, since 2026-07-28 only

	send     func(context.Context, ...facade.CallOption) (json.RawMessage, error) // waits for a server that is down
	answerTo func(error) (json.RawMessage, error)                                 // the answer to an error of send
	offered  func() bool                                                          // whether the target still is; nil: yes
}

// resumeHeld continues the held call that a request names. Callers try it before they look for the
// target: meanwhile a reload may have hidden or renamed the target. ok is false if the request names no
// held call.
func (r *request) resumeHeld(modern bool, s *inputParams, of callMeta, answerTo func(error) (json.RawMessage, error)) (result json.RawMessage, ok bool, err error) {
	if !modern || len(s.next.RequestState) == 0 || !roundtrip.IsHeld(s.next.RequestState) {
		return nil, false, nil
	}
	if isProgressToken(of.progressToken) {
		r.token = of.progressToken
	}
	result, r.failed, err = r.gateway.holds.Resume(r.session.owner, r.forRoundtrip(), s.next.RequestState, s.next.InputResponses)
	if failed := new(mcpvisor.Error); errors.As(err, &failed) {
		r.failed = true
		result, err = answerTo(err)
	}
	return result, true, err
}

// perform makes a request at a server and returns its answer. Callers try resumeHeld first.
func (r *request) perform(u *upstreamRequest) (result json.RawMessage, err error) {
	if !u.modern {
		result, r.failed, err = r.sendUpstream(r.ctx, u, r.tell)
		return result, err
	}
	u.request = r.forRoundtrip()
	next := &u.input.next
	if string(next.RequestState) == "null" {
		next.RequestState = nil
	}
	if len(next.RequestState) > 0 { // of the server itself: resumeHeld takes those of held calls
		state, err := r.gateway.holds.OpenResult(r.session.owner, u.request, u.server, next.RequestState)
		if err != nil {
			return nil, err
		}
		next.RequestState = state
	}
	if u.input.declared == 0 {
		result, r.failed, err = r.sendUpstream(r.ctx, u, r.tell)
		return result, err
	}
	call := r.session.tripClient(u.input.declared).Begin(r.session.holdContext, u.request, roundtrip.Target{Server: u.server, Offered: u.offered}, func(ctx context.Context, h *roundtrip.Call) (json.RawMessage, bool, error) {
		return r.sendUpstream(ctx, u, h.Tell)
	})
	result, r.failed, err = call.Await(u.request)
	return result, err
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

// sendUpstream makes a request at a server. failed says that the result is an error of the call. tell is
// as in callOptions.
func (r *request) sendUpstream(ctx context.Context, u *upstreamRequest, tell func(func(roundtrip.Told))) (result json.RawMessage, failed bool, err error) {
	opts, err := r.callOptions(u, tell)
	if err != nil {
		return nil, false, err
	}
	result, err = u.send(ctx, opts...)
	switch {
	case err != nil:
		r.gateway.elicitations.BeginRequired(r.session.elicitedSession(), err)
		result, err = u.answerTo(err)
		return result, true, err
	case u.modern:
		// Results of servers before 2026-07-28 have no resultType.
		return message.WithResultType(r.gateway.holds.SealResult(r.session.owner, u.request, u.server, result)), false, nil
	}
	return result, false, nil
}

// decodeResult decodes the result of a request. A result that requires input is returned as it is.
func decodeResult[R any](raw json.RawMessage, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if _, more := facade.ReadInputRequired(raw); more {
		return raw, nil
	}
	result := new(R)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("the result cannot be read: %w", err)
	}
	return result, nil
}

// encodeResult encodes what decodeResult has returned, unless that is encoded already.
func encodeResult(result any, err error, modern bool) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if raw, ok := result.(json.RawMessage); ok {
		return raw, nil
	}
	return message.Result(result, modern)
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
		isReplaced := kind == mcpvisor.KindClosed && at != g.client
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

// whenUp is gateway.whenUp for the incarnation of a server that this connection uses.
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
	return kind == mcpvisor.KindUnavailable || kind == mcpvisor.KindCrashed || kind == mcpvisor.KindEnded
}
