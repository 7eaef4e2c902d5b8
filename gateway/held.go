package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A server before 2026-07-28 asks while its call is in flight; a client of 2026-07-28 is asked by the
// result of its request, and answers with the next request (MCP, multi round-trip requests). Between the
// two the call is held: it stays in flight at the server, and no request of the client belongs to it.
//
//	client                      gateway                              server
//	  tools/call            ->    tools/call                     ->    runs
//	  input_required        <-    held                           <-    elicitation/create
//	  tools/call, answers   ->    continues                      ->    the answer
//	  result                <-                                   <-    result
//
// The requestState of the client names the call. It is good for one request, and for holdTime.

// holdTime is how long a held call waits for its client. Then it is canceled at the server.
const holdTime = 10 * time.Minute

// holds are the held calls of a gateway. Its lock is the innermost one.
type holds struct {
	instance string // tells the calls of this process from those of another one with the same key
	limits   Limits // read only

	mu   sync.Mutex // guards the fields below
	byID map[string]*heldCall
	uses map[holdOwner]holdUse // without those that use nothing
}

// holdOwner is whose held calls count together: those of a principal or, of a Transport, of a session.
type holdOwner struct {
	principal string
	session   *connection // nil over HTTP
}

// holdUse is what the calls of one owner hold.
type holdUse struct{ calls, bytes int }

func newHolds(limits Limits) *holds {
	return &holds{instance: rand.Text(), limits: limits, byID: map[string]*heldCall{}, uses: map[holdOwner]holdUse{}}
}

// reserve counts calls and bytes of an owner; it counts nothing and reports false if that has as much as
// it may. Negative values give back.
func (s *holds) reserve(owner holdOwner, calls, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	use := s.uses[owner]
	if calls > 0 && use.calls+calls > s.limits.MaxHeld || bytes > 0 && use.bytes+bytes > s.limits.MaxHeldBytes {
		return false
	}
	use.calls += calls
	use.bytes += bytes
	if s.uses[owner] = use; use == (holdUse{}) {
		delete(s.uses, owner)
	}
	return true
}

// count is how many calls are held.
func (s *holds) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// roundPeer is a client of 2026-07-28 with what it has declared. All its calls have the same handlers: a
// server on a pipe does not say because of which call it asks. Over HTTP, where nothing says which
// requests are of one client, each request has its own.
type roundPeer struct {
	gateway   *gateway
	owner     string // see connection.owner
	holdOwner holdOwner
	declared  uint16
	handlers  facade.CallHandlers

	mu     sync.Mutex  // guards the fields below, and those of the calls
	calls  []*heldCall // in flight at a server, the newest last
	nextID int
}

// heldCall is a call at a server that may be held. The fields are guarded by peer.mu, unless they say
// otherwise.
type heldCall struct {
	peer    *roundPeer         // read only
	server  string             // read only; empty if only the client knows
	offered func() bool        // see upstreamRequest; read only
	ctx     context.Context    // ends the call at the server
	cancel  context.CancelFunc // of ctx
	wake    chan struct{}      // holds a value when the request has something to do

	request *request        // gets what comes next; nil while the call is held
	asked   []*heldQuestion // not answered, the oldest first
	done    bool            // it has ended at the server, with:
	result  json.RawMessage
	err     error
	failed  bool // the result is an error of the call; written before done is set

	id      string // names it among holds, from the first time that it is held until its end; else empty
	digest  string // of its request; set with id
	round   int    // how often it was held
	expires *time.Timer
	kept    int // bytes of its params and its result that are reserved
}

// heldQuestion is a request of a server, which the client is asked by a round.
type heldQuestion struct {
	key    string // names it in inputRequests
	method string
	params json.RawMessage
	server string
	call   *heldCall       // whose result asks it; guarded by roundPeer.mu
	answer chan heldAnswer // has room for one
}

// heldAnswer is the answer of the client, or why there is none.
type heldAnswer struct {
	result json.RawMessage
	err    error
}

func (q *heldQuestion) bytes() int { return answerCost + len(q.params) }

// roundPeerOf returns the peer of a session with what a request declares.
func (c *connection) roundPeerOf(declared uint16) *roundPeer {
	c.roundMu.Lock()
	defer c.roundMu.Unlock()
	p := c.roundPeers[declared]
	if p == nil {
		p = &roundPeer{gateway: c.gateway, owner: c.owner, holdOwner: c.holdOwner, declared: declared}
		p.handlers = facade.CallHandlers{Raw: p.ask, RawAnswers: capability.Answers(declared)}
		if c.roundPeers == nil {
			c.roundPeers = map[uint16]*roundPeer{}
		}
		c.roundPeers[declared] = p
	}
	return p
}

// begin makes a call, which ends with ctx, in a goroutine of its own.
func (p *roundPeer) begin(ctx context.Context, r *request, u *upstreamRequest, call func(context.Context, *heldCall) (json.RawMessage, error)) *heldCall {
	h := &heldCall{peer: p, server: u.server, offered: u.offered, request: r, wake: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(ctx)
	p.mu.Lock()
	p.calls = append(p.calls, h)
	p.mu.Unlock()
	go func() {
		// Code of the host, such as an interceptor, may end the goroutine. Then this is the answer.
		var result json.RawMessage
		var err error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Method + " ended its goroutine without an answer (runtime.Goexit)"}
		defer func() {
			if v := recover(); v != nil {
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v", r.Method, v)}
			}
			h.end(result, err)
		}()
		result, err = call(h.ctx, h)
	}()
	return h
}

func (h *heldCall) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// tell calls f with the request that is told about the call, unless it is held.
func (h *heldCall) tell(f func(*request)) {
	h.peer.mu.Lock()
	defer h.peer.mu.Unlock()
	if h.request != nil {
		f(h.request)
	}
}

// carrierLocked returns the newest call at a server, whose result asks its questions.
func (p *roundPeer) carrierLocked(server string) *heldCall {
	for _, h := range slices.Backward(p.calls) {
		if (h.server == server || h.server == "") && h.ctx.Err() == nil {
			return h
		}
	}
	return nil
}

var errHeldTooMuch = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many calls of the client wait for answers, or their questions are too large; it was not asked"}

// ask asks the client what a server asks because of one of its calls, and returns its answer as it is.
func (p *roundPeer) ask(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	if err := capability.Check(p.declared, r); err != nil {
		return nil, err
	}
	q := &heldQuestion{method: r.Method, params: bytes.Clone(r.Params), server: r.Server, answer: make(chan heldAnswer, 1)}
	p.mu.Lock()
	call := p.carrierLocked(r.Server)
	if call == nil {
		p.mu.Unlock()
		return nil, errNotAsked
	}
	if !p.gateway.holds.reserve(p.holdOwner, 0, q.bytes()) {
		p.mu.Unlock()
		return nil, errHeldTooMuch
	}
	p.nextID++
	q.key = "q" + strconv.Itoa(p.nextID)
	q.call = call
	call.asked = append(call.asked, q)
	call.signal()
	p.mu.Unlock()
	select {
	case a := <-q.answer:
		return a.result, a.err
	case <-ctx.Done(): // the server has withdrawn it, or its call has ended
		p.mu.Lock()
		defer p.mu.Unlock()
		if at := slices.Index(q.call.asked, q); at >= 0 {
			q.call.asked = slices.Delete(q.call.asked, at, at+1)
			p.gateway.holds.reserve(p.holdOwner, 0, -q.bytes())
		}
		return nil, ctx.Err()
	}
}

// answerLocked ends a question of a call.
func (h *heldCall) answerLocked(q *heldQuestion, a heldAnswer) {
	h.asked = slices.DeleteFunc(h.asked, func(other *heldQuestion) bool { return other == q })
	h.peer.gateway.holds.reserve(h.peer.holdOwner, 0, -q.bytes())
	q.answer <- a
}

var errResultLost = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call has ended while the client answered, and its result is lost: it is larger than may be kept. The tool has run; do not repeat the call unless it may run twice."}

// end notes how the call has ended at the server. What was asked on its result, and may belong to another
// call, is asked on that.
func (h *heldCall) end(result json.RawMessage, err error) {
	p := h.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	canceled := h.ctx.Err() != nil
	h.cancel()
	p.calls = slices.DeleteFunc(p.calls, func(other *heldCall) bool { return other == h })
	for _, q := range slices.Clone(h.asked) {
		if next := p.carrierLocked(q.server); next != nil {
			q.call = next
			next.asked = append(next.asked, q)
			next.signal()
			continue
		}
		h.answerLocked(q, heldAnswer{err: errCallEnded})
	}
	h.asked = nil
	h.done, h.result, h.err = true, result, err
	switch {
	case h.request != nil || h.id == "":
	case canceled: // with the session, or the gateway
		h.expires.Stop()
		h.releaseLocked()
	case !p.gateway.holds.reserve(p.holdOwner, 0, len(result)):
		h.result, h.err = nil, errResultLost
	default:
		h.kept += len(result)
	}
	h.signal()
}

// await returns the answer to a request: the end of the call, or what the server asks next. If the client
// goes, or cancels the request, the call is canceled.
func (h *heldCall) await(r *request) (json.RawMessage, error) {
	p := h.peer
	stop := context.AfterFunc(r.ctx, h.cancel)
	for {
		p.mu.Lock()
		if h.done {
			defer p.mu.Unlock()
			stop()
			h.request = nil
			h.releaseLocked()
			r.failed = h.failed
			return h.result, h.err
		}
		if len(h.asked) > 0 && stop() {
			if state, ok := h.holdLocked(r); ok {
				defer p.mu.Unlock()
				return h.requiredLocked(state), nil
			}
			for _, q := range slices.Clone(h.asked) {
				h.answerLocked(q, heldAnswer{err: errHeldTooMuch})
			}
			stop = context.AfterFunc(r.ctx, h.cancel)
		}
		p.mu.Unlock()
		<-h.wake // the call ends in any case
	}
}

// holdLocked lets the call wait for its client, and returns the requestState with which that continues. It
// reports false if the owner has as many held calls as it may.
func (h *heldCall) holdLocked(r *request) (state string, ok bool) {
	p, s := h.peer, h.peer.gateway.holds
	if h.id == "" {
		if !s.reserve(p.holdOwner, 1, r.bytes) { // its params are kept
			return "", false
		}
		h.id, h.digest, h.kept = rand.Text(), digestOf(r), r.bytes
		s.mu.Lock()
		s.byID[h.id] = h
		s.mu.Unlock()
	}
	h.round++
	h.request = nil
	round := h.round
	expire := func() { h.expire(round) }
	h.expires = time.AfterFunc(holdTime, expire)
	r.unhold.Store(&expire)
	return p.gateway.sealHeld(p.owner, &requestState{server: h.server, digest: h.digest, instance: s.instance, id: h.id, round: strconv.Itoa(round)}), true
}

// expire ends a call for which its client did not come back, or will not.
func (h *heldCall) expire(round int) {
	h.peer.mu.Lock()
	defer h.peer.mu.Unlock()
	if h.request == nil && h.round == round {
		h.expires.Stop()
		h.cancel()
		h.releaseLocked()
	}
}

// releaseLocked gives back what the call holds. Its client cannot continue it then.
func (h *heldCall) releaseLocked() {
	s := h.peer.gateway.holds
	if h.id == "" {
		return
	}
	s.mu.Lock()
	delete(s.byID, h.id)
	s.mu.Unlock()
	s.reserve(h.peer.holdOwner, -1, -h.kept)
	h.id, h.kept = "", 0
}

// requiredLocked is the result that asks the client.
func (h *heldCall) requiredLocked(state string) json.RawMessage {
	b := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range h.asked {
		if i > 0 {
			b = append(b, ',')
		}
		method, _ := json.Marshal(q.method) // text always marshals
		b = append(append(append(append(b, '"'), q.key...), `":{"method":`...), method...)
		if len(q.params) > 0 {
			b = append(append(b, `,"params":`...), q.params...)
		}
		b = append(b, '}')
	}
	b = append(append(append(b, `},"requestState":"`...), state...), `"}`...)
	return b
}

// resume continues a held call with the next request of its client.
func (c *connection) resume(r *request, state *requestState, of callMeta, responses json.RawMessage) (json.RawMessage, error) {
	s := c.holds
	if state.instance != s.instance {
		return nil, errGatewayEnded(state.server)
	}
	s.mu.Lock()
	h := s.byID[state.id]
	s.mu.Unlock()
	if h == nil {
		return nil, errStateUsed
	}
	if isProgressToken(of.progressToken) {
		r.token = of.progressToken
	}
	if err := h.take(r, state.round, responses); err != nil {
		return nil, err
	}
	return h.await(r)
}

// take makes a request the one that gets what comes next, and passes its answers on. What it does not
// answer is asked again.
func (h *heldCall) take(r *request, round string, responses json.RawMessage) error {
	p := h.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.id == "" || h.request != nil || strconv.Itoa(h.round) != round {
		return errStateUsed
	}
	if h.offered != nil && !h.offered() { // a reload has hidden it
		h.expires.Stop()
		h.cancel()
		h.releaseLocked()
		return errStateUsed
	}
	answers := map[*heldQuestion]json.RawMessage{}
	err := jsonscan.EachMember(responses, func(key string, value []byte) error {
		at := slices.IndexFunc(h.asked, func(q *heldQuestion) bool { return q.key == key })
		switch {
		case at < 0: // the server has withdrawn it, or did not ask
		case value[0] != '{':
			return message.NotAnAnswer(key)
		default:
			answers[h.asked[at]] = value
		}
		return nil
	})
	if err != nil && len(responses) > 0 {
		return err
	}
	h.expires.Stop()
	h.request = r
	for q, answer := range answers {
		h.answerLocked(q, heldAnswer{result: bytes.Clone(answer)})
	}
	return nil
}
