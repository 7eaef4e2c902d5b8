package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
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
			return jsonscan.EachMember(value, func(key string, value []byte) error {
				if key == mcp.MetaKeyClientCapabilities {
					s.declared, s.tasks = capability.OfRequest(value), capability.HasTasksExtension(value)
				}
				return nil
			})
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
func (c *connection) resumeHeld(r *request, modern bool, s *inputParams, of callMeta, answerTo func(error) (json.RawMessage, error)) (result json.RawMessage, ok bool, err error) {
	if !modern || len(s.next.RequestState) == 0 || !roundtrip.IsHeld(s.next.RequestState) {
		return nil, false, nil
	}
	if isProgressToken(of.progressToken) {
		r.token = of.progressToken
	}
	result, r.failed, err = c.holds.Resume(c.owner, r.forRoundtrip(), s.next.RequestState, s.next.InputResponses)
	if failed := new(mcpvisor.Error); errors.As(err, &failed) {
		r.failed = true
		result, err = answerTo(err)
	}
	return result, true, err
}

// perform makes a request at a server and returns its answer. Callers try resumeHeld first.
func (c *connection) perform(r *request, u *upstreamRequest) (result json.RawMessage, err error) {
	if !u.modern {
		result, r.failed, err = c.sendUpstream(r.ctx, r, u, r.tell)
		return result, err
	}
	u.request = r.forRoundtrip()
	next := &u.input.next
	if string(next.RequestState) == "null" {
		next.RequestState = nil
	}
	if len(next.RequestState) > 0 { // of the server itself: resumeHeld takes those of held calls
		state, err := c.holds.OpenResult(c.owner, u.request, u.server, next.RequestState)
		if err != nil {
			return nil, err
		}
		next.RequestState = state
	}
	if u.input.declared == 0 {
		result, r.failed, err = c.sendUpstream(r.ctx, r, u, r.tell)
		return result, err
	}
	call := c.tripClient(u.input.declared).Begin(c.holdContext, u.request, roundtrip.Target{Server: u.server, Offered: u.offered}, func(ctx context.Context, h *roundtrip.Call) (json.RawMessage, bool, error) {
		return c.sendUpstream(ctx, r, u, h.Tell)
	})
	result, r.failed, err = call.Await(u.request)
	return result, err
}

// forRoundtrip describes the request for package roundtrip.
func (r *request) forRoundtrip() *roundtrip.Request {
	return &roundtrip.Request{Ctx: r.ctx, Method: r.Method, Params: r.Params, Bytes: r.bytes, Told: r}
}

// ReportProgress implements [roundtrip.Told].
func (r *request) ReportProgress(p mcpvisor.Progress) { r.out.addProgress(r, p) }

// ReportLog implements [roundtrip.Told].
func (r *request) ReportLog(m mcpvisor.LogMessage) { r.out.addLog(r, m) }

// Hold implements [roundtrip.Told].
func (r *request) Hold(giveUp func()) { r.unhold.Store(&giveUp) }

// tell calls f with the receiver of reports about a call that is not held.
func (r *request) tell(f func(roundtrip.Told)) { f(r) }

// tripClient returns the client of the session that declares these capabilities in its requests.
func (c *connection) tripClient(declared uint16) *roundtrip.Client {
	c.tripMu.Lock()
	defer c.tripMu.Unlock()
	made := c.tripClients[declared]
	if made == nil {
		made = c.holds.NewClient(c.owner, c.holdOwner, declared)
		if c.tripClients == nil {
			c.tripClients = map[uint16]*roundtrip.Client{}
		}
		c.tripClients[declared] = made
	}
	return made
}

// sendUpstream makes a request at a server. failed says that the result is an error of the call. tell is
// as in callOptions.
func (c *connection) sendUpstream(ctx context.Context, r *request, u *upstreamRequest, tell func(func(roundtrip.Told))) (result json.RawMessage, failed bool, err error) {
	opts, err := c.callOptions(r, u, tell)
	if err != nil {
		return nil, false, err
	}
	result, err = u.send(ctx, opts...)
	switch {
	case err != nil:
		c.elicitations.BeginRequired(c.elicitedSession(), err)
		result, err = u.answerTo(err)
		return result, true, err
	case u.modern:
		// Results of servers before 2026-07-28 have no resultType.
		return message.WithResultType(c.holds.SealResult(c.owner, u.request, u.server, result)), false, nil
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
