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

// Input that a server of 2026-07-28 requires is handed to a client of 2026-07-28 as the server has sent
// it, but for the requestState, which is sealed. What the client sends with the next request goes to the
// server as it is (MCP, multi round-trip requests).

// rounds are what a request since 2026-07-28 says about input.
type rounds struct {
	declared uint16 // what the client can be asked for, as bits
	tasks    bool   // the client declares the extension for tasks
	next     facade.Continuation
}

// readRounds reads the params of a request.
func readRounds(raw json.RawMessage, p *params) (s rounds) {
	if !p.modern() {
		return rounds{}
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

// valid reports whether the answers are an object.
func (s *rounds) valid() bool {
	return len(s.next.InputResponses) == 0 || s.next.InputResponses[0] == '{'
}

var errInputResponses = message.InvalidParams("the inputResponses in params are not an object")

// relays reports whether the client answers itself. One that can answer nothing leaves it to the handlers
// of the client that is served.
func (s *rounds) relays() bool {
	return len(s.next.InputResponses) > 0 || len(s.next.RequestState) > 0 || s.declared != 0 ||
		s.tasks // what a task asks for goes to the client
}

// upstreamRequest is a request that a session makes of a server.
type upstreamRequest struct {
	server string // as in serverOf
	meta   json.RawMessage
	of     callMeta
	modern bool // of 2026-07-28
	rounds rounds
	round  *roundtrip.Request // the request; set by perform, of 2026-07-28 only

	send     func(context.Context, ...facade.CallOption) (json.RawMessage, error) // waits for a server that is down
	answerTo func(error) (json.RawMessage, error)                                 // the answer for an error of send
	offered  func() bool                                                          // the target still is; nil: it is
}

// resumeHeld continues the held call that a request names. It comes before the search for the target: a reload may have
// hidden that, or given it another name, while the call was held. ok is false if the request names no held call.
func (c *connection) resumeHeld(r *request, modern bool, s *rounds, of callMeta, answerTo func(error) (json.RawMessage, error)) (result json.RawMessage, ok bool, err error) {
	if !modern || len(s.next.RequestState) == 0 || !roundtrip.IsHeld(s.next.RequestState) {
		return nil, false, nil
	}
	if isProgressToken(of.progressToken) {
		r.token = of.progressToken
	}
	result, r.failed, err = c.holds.Resume(c.owner, r.round(), s.next.RequestState, s.next.InputResponses)
	if failed := new(mcpvisor.Error); errors.As(err, &failed) {
		r.failed = true
		result, err = answerTo(err)
	}
	return result, true, err
}

// perform makes a request of a server, unless it continues a held call, and returns its answer.
func (c *connection) perform(r *request, u *upstreamRequest) (result json.RawMessage, err error) {
	if !u.modern {
		result, r.failed, err = c.sendUpstream(r.ctx, r, u, r.tell)
		return result, err
	}
	u.round = r.round()
	next := &u.rounds.next
	if string(next.RequestState) == "null" {
		next.RequestState = nil
	}
	if len(next.RequestState) > 0 { // of no held call: resumeHeld has them, and completions have none
		state, err := c.holds.OpenResult(c.owner, u.round, u.server, next.RequestState)
		if err != nil {
			return nil, err
		}
		next.RequestState = state
	}
	if u.rounds.declared == 0 {
		result, r.failed, err = c.sendUpstream(r.ctx, r, u, r.tell)
		return result, err
	}
	call := c.roundClient(u.rounds.declared).Begin(c.holdContext, u.round, roundtrip.Target{Server: u.server, Offered: u.offered}, func(ctx context.Context, h *roundtrip.Call) (json.RawMessage, bool, error) {
		return c.sendUpstream(ctx, r, u, h.Tell)
	})
	result, r.failed, err = call.Await(u.round)
	return result, err
}

// round is a request as a part of a call.
func (r *request) round() *roundtrip.Request {
	return &roundtrip.Request{Ctx: r.ctx, Method: r.Method, Params: r.Params, Bytes: r.bytes, Told: r}
}

// ReportProgress implements [roundtrip.Told].
func (r *request) ReportProgress(p mcpvisor.Progress) { r.out.addProgress(r, p) }

// ReportLog implements [roundtrip.Told].
func (r *request) ReportLog(m mcpvisor.LogMessage) { r.out.addLog(r, m) }

// Hold implements [roundtrip.Told].
func (r *request) Hold(giveUp func()) { r.unhold.Store(&giveUp) }

// tell calls f with who is told about the call of a request.
func (r *request) tell(f func(roundtrip.Told)) { f(r) }

// roundClient returns the client of a session with what a request declares.
func (c *connection) roundClient(declared uint16) *roundtrip.Client {
	c.roundMu.Lock()
	defer c.roundMu.Unlock()
	made := c.roundClients[declared]
	if made == nil {
		made = c.holds.NewClient(c.owner, c.holdOwner, declared)
		if c.roundClients == nil {
			c.roundClients = map[uint16]*roundtrip.Client{}
		}
		c.roundClients[declared] = made
	}
	return made
}

// sendUpstream makes a request of a server. failed says that the result is an error of it. tell is as in callOptions.
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
		return message.WithResultType(c.holds.SealResult(c.owner, u.round, u.server, result)), false, nil // servers before 2026-07-28 do not say what it is
	}
	return result, false, nil
}

// readRound returns the result of a round: as it is, if the server requires input.
func readRound[R any](raw json.RawMessage, err error) (any, error) {
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

// encodeRound encodes the result of a round, unless it is encoded.
func encodeRound(result any, err error, modern bool) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if raw, ok := result.(json.RawMessage); ok {
		return raw, nil
	}
	return message.Result(result, modern)
}
