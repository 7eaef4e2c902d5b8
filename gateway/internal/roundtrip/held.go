// Package roundtrip carries a request of a client of 2026-07-28 over several messages (MCP, multi
// round-trip requests). It seals the requestState of each message, and holds calls at servers of earlier
// versions in between. A Store has the held calls; Limits bound those of one owner, and HoldTime each of
// them.
package roundtrip

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// A server before 2026-07-28 asks a question while its call is in flight. A client of 2026-07-28 gets
// the question as the result of its request, and answers with the next request (MCP, multi round-trip
// requests). Between these two requests the call is held: it is in flight at the server, and no request
// of the client waits for it.
//
//	client                      gateway                              server
//	  tools/call            ->    tools/call                     ->    runs
//	  input_required        <-    held                           <-    elicitation/create
//	  tools/call, answers   ->    continues                      ->    the answer
//	  result                <-                                   <-    result
//
// The requestState names the call. It is valid for one request, and for HoldTime.

// HoldTime is how long a held call waits for its client. Then it is canceled at the server.
const HoldTime = 10 * time.Minute

// Request is one request of a client.
type Request struct {
	Ctx    context.Context // ends when the client cancels the request, or is gone
	Method string
	Params json.RawMessage
	Bytes  int  // that the params count for Limits.Bytes
	Told   Told // gets the reports about its call
}

// Told gets the reports about a call.
type Told interface {
	ReportProgress(p mcpvisor.Progress)
	ReportLog(m mcpvisor.LogMessage)
	// Hold is called when the call is held after the answer to the request. giveUp ends the call, for
	// when the client will not get that answer. Hold must not call giveUp.
	Hold(giveUp func())
}

// Store has the held calls of a gateway, and seals the states of its requests. Its lock is the innermost one.
// Safe for concurrent use.
type Store struct {
	key      []byte // read only
	instance string // distinguishes the calls of this process from those of another one with the same key
	limits   Limits // read only

	mu   sync.Mutex // guards the fields below
	byID map[string]*Call
	uses map[Owner]use // without owners that use nothing
}

// Limits bound the held calls of one owner: their number, and the bytes of their params, questions and
// results.
type Limits struct {
	Calls, Bytes int
	// Hold also counts the bytes of a principal, if it is set. Negative bytes are given back.
	Hold func(principal string, bytes int) bool
}

// Owner is what held calls count for: a principal or, in a Transport, a session.
type Owner struct {
	Principal string
	Session   any // comparable; nil over HTTP
}

// use is what the held calls of one owner use of the Limits.
type use struct{ calls, bytes int }

// New returns a Store. key seals the states. Another process with the same key can read the states of
// servers, and not continue held calls.
func New(key []byte, limits Limits) *Store {
	return &Store{key: key, instance: rand.Text(), limits: limits, byID: map[string]*Call{}, uses: map[Owner]use{}}
}

// reserve counts calls and bytes of an owner. It counts nothing and reports false if the owner would
// exceed a limit. Negative values give back.
func (s *Store) reserve(owner Owner, calls, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[owner]
	if calls > 0 && u.calls+calls > s.limits.Calls || bytes > 0 && u.bytes+bytes > s.limits.Bytes {
		return false
	}
	if bytes != 0 && s.limits.Hold != nil && !s.limits.Hold(owner.Principal, bytes) {
		return false
	}
	u.calls += calls
	u.bytes += bytes
	if s.uses[owner] = u; u == (use{}) {
		delete(s.uses, owner)
	}
	return true
}

// Count returns the number of held calls, and of those among them that have ended at their servers.
func (s *Store) Count() (held, ended int) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	for _, h := range all {
		h.client.mu.Lock()
		if h.done {
			ended++
		}
		h.client.mu.Unlock()
	}
	return len(all), ended
}

// IsIdle reports whether no call is held, and nothing is counted.
func (s *Store) IsIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)+len(s.uses) == 0
}

// Client is a client of 2026-07-28 that has declared certain capabilities. All its calls have the same
// handlers, as a server on a pipe does not say which call causes a question. Over HTTP nothing says
// which requests are of one client, so each request has its own Client.
type Client struct {
	store    *Store
	owner    string // of the states
	counted  Owner
	declared uint16
	handlers relay.Handlers

	mu     sync.Mutex // guards the fields below, and those of the calls
	calls  []*Call    // in flight at a server, newest last
	nextID int
}

// Call is a call at a server that may be held. The fields are guarded by client.mu, unless they say
// otherwise.
type Call struct {
	client *Client            // read only
	target Target             // read only
	ctx    context.Context    // ends the call at the server
	cancel context.CancelFunc // of ctx
	wake   chan struct{}      // holds a value when the request has something to do

	request *Request        // gets the result or the next questions; nil while the call is held
	asked   []*heldQuestion // not answered, oldest first
	done    bool            // the call has ended at the server, with:
	result  json.RawMessage
	err     error
	failed  bool // the result is an error of the call

	id      string         // its key in Store.byID, since it was first held and until its end; else empty
	digest  string         // of its request; set with id
	round   int            // how many times it was held
	expires *overdue.Timer // calls expire after HoldTime
	kept    int            // reserved bytes of its params and its result
}

// heldQuestion is a request of a server that the client gets in the result of a request.
type heldQuestion struct {
	key    string // names it in inputRequests
	method string
	params json.RawMessage
	server string
	call   *Call           // its result has the question; guarded by Client.mu
	answer chan heldAnswer // has room for one
}

// heldAnswer is the answer of the client, or why the client gave no answer.
type heldAnswer struct {
	result json.RawMessage
	err    error
}

// questionCost is the memory that a question takes in addition to its params, in bytes.
const questionCost = 512

func (q *heldQuestion) bytes() int { return questionCost + len(q.params) }

// NewClient returns a client that has declared these capabilities, as bits. Its states belong to owner,
// and its held calls count for counted.
func (s *Store) NewClient(owner string, counted Owner, declared uint16) *Client {
	c := &Client{store: s, owner: owner, counted: counted, declared: declared}
	c.handlers = relay.Handlers{Raw: c.ask, RawAnswers: capability.Answers(declared)}
	return c
}

// Handlers returns the handlers for all calls of the client.
func (c *Client) Handlers() *relay.Handlers { return &c.handlers }

// Target says what a call is about.
type Target struct {
	Server  string      // empty if only the client that makes the call knows
	Offered func() bool // whether the target still is; nil: yes
}

// Begin makes a call in a goroutine of its own. The call ends with ctx. call returns its result, and
// failed if that is an error of the call. Afterwards the caller waits in [Call.Await].
func (c *Client) Begin(ctx context.Context, r *Request, target Target, call func(context.Context, *Call) (result json.RawMessage, failed bool, err error)) *Call {
	h := &Call{client: c, target: target, request: r, wake: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(ctx)
	c.mu.Lock()
	c.calls = append(c.calls, h)
	c.mu.Unlock()
	go func() {
		// Code of the host, such as an interceptor, may end the goroutine. Then this is the answer.
		var result json.RawMessage
		var failed bool
		var err error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Method + " ended its goroutine without an answer (runtime.Goexit)"}
		defer func() {
			if v := recover(); v != nil {
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v", r.Method, v)}
			}
			h.end(result, failed, err)
		}()
		result, failed, err = call(h.ctx, h)
	}()
	return h
}

func (call *Call) signal() {
	select {
	case call.wake <- struct{}{}:
	default:
	}
}

// Tell calls f with the receiver of reports about the call, unless the call is held.
func (call *Call) Tell(f func(Told)) {
	call.client.mu.Lock()
	defer call.client.mu.Unlock()
	if call.request != nil {
		f(call.request.Told)
	}
}

// carrierLocked returns the newest call at a server: its result has the questions of the server.
func (c *Client) carrierLocked(server string) *Call {
	for _, h := range slices.Backward(c.calls) {
		if (h.target.Server == server || h.target.Server == "") && h.ctx.Err() == nil {
			return h
		}
	}
	return nil
}

var errHeldTooMuch = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many calls of the client wait for answers, or their questions are too large; it was not asked"}

// ask passes a question that a call of the client causes on to the client, and returns the answer
// unchanged.
func (c *Client) ask(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
	if err := capability.Check(c.declared, r); err != nil {
		return nil, err
	}
	q := &heldQuestion{method: r.Method, params: bytes.Clone(r.Params), server: r.Server, answer: make(chan heldAnswer, 1)}
	c.mu.Lock()
	call := c.carrierLocked(r.Server)
	if call == nil {
		c.mu.Unlock()
		return nil, message.ErrNotAsked
	}
	if !c.store.reserve(c.counted, 0, q.bytes()) {
		c.mu.Unlock()
		return nil, errHeldTooMuch
	}
	c.nextID++
	q.key = "q" + strconv.Itoa(c.nextID)
	q.call = call
	call.asked = append(call.asked, q)
	call.signal()
	c.mu.Unlock()
	select {
	case a := <-q.answer:
		return a.result, a.err
	case <-ctx.Done(): // the server has withdrawn it, or its call has ended
		c.mu.Lock()
		defer c.mu.Unlock()
		if at := slices.Index(q.call.asked, q); at >= 0 {
			q.call.asked = slices.Delete(q.call.asked, at, at+1)
			c.store.reserve(c.counted, 0, -q.bytes())
		}
		return nil, ctx.Err()
	}
}

// answerLocked ends a question of a call.
func (call *Call) answerLocked(q *heldQuestion, a heldAnswer) {
	call.asked = slices.DeleteFunc(call.asked, func(other *heldQuestion) bool { return other == q })
	call.client.store.reserve(call.client.counted, 0, -q.bytes())
	q.answer <- a
}

var errResultLost = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call has ended while the client answered, and its result is lost: it is larger than may be kept. The tool has run; do not repeat the call unless it may run twice."}

// end records how the call has ended at the server. Its questions move to another call at the same
// server, because they may belong to that one; without such a call they end.
func (call *Call) end(result json.RawMessage, failed bool, err error) {
	c := call.client
	c.mu.Lock()
	defer c.mu.Unlock()
	canceled := call.ctx.Err() != nil
	call.cancel()
	c.calls = slices.DeleteFunc(c.calls, func(other *Call) bool { return other == call })
	for _, q := range slices.Clone(call.asked) {
		if next := c.carrierLocked(q.server); next != nil {
			q.call = next
			next.asked = append(next.asked, q)
			next.signal()
			continue
		}
		call.answerLocked(q, heldAnswer{err: message.ErrCallEnded})
	}
	call.asked = nil
	call.done, call.result, call.failed, call.err = true, result, failed, err
	switch {
	case call.request != nil || call.id == "":
	case canceled: // with the session, or the gateway
		call.expires.Stop()
		call.releaseLocked()
	case !c.store.reserve(c.counted, 0, len(result)):
		call.result, call.err = nil, errResultLost
	default:
		call.kept += len(result)
	}
	call.signal()
}

// Await returns the answer to a request: the result of the call, or the questions of the server. failed
// says that it is an error of the call. If the client cancels the request, or is gone, the call is
// canceled.
func (call *Call) Await(r *Request) (result json.RawMessage, failed bool, err error) {
	c := call.client
	stop := context.AfterFunc(r.Ctx, call.cancel)
	for {
		c.mu.Lock()
		if call.done {
			defer c.mu.Unlock()
			stop()
			call.request = nil
			call.releaseLocked()
			return call.result, call.failed, call.err
		}
		if len(call.asked) > 0 && stop() {
			if state, ok := call.holdLocked(r); ok {
				defer c.mu.Unlock()
				return call.requiredLocked(state), false, nil
			}
			for _, q := range slices.Clone(call.asked) {
				call.answerLocked(q, heldAnswer{err: errHeldTooMuch})
			}
			stop = context.AfterFunc(r.Ctx, call.cancel)
		}
		c.mu.Unlock()
		<-call.wake // the call ends in any case
	}
}

// holdLocked holds the call, and returns the requestState that continues it. It reports false if the
// owner has too many held calls.
func (call *Call) holdLocked(r *Request) (sealed string, ok bool) {
	c, s := call.client, call.client.store
	if call.id == "" {
		if !s.reserve(c.counted, 1, r.Bytes) { // its params are kept
			return "", false
		}
		call.id, call.digest, call.kept = rand.Text(), digestOf(r), r.Bytes
		s.mu.Lock()
		s.byID[call.id] = call
		s.mu.Unlock()
	}
	call.round++
	call.request = nil
	round := call.round
	expire := func() { call.expire(round) }
	call.expires = overdue.AfterFunc(HoldTime, expire)
	r.Told.Hold(expire)
	return heldPrefix + seal.Seal(s.key, heldKind, c.owner, call.target.Server, call.digest, seal.Time(time.Now().Add(HoldTime)),
		s.instance, call.id, strconv.Itoa(round)), true
}

// expire ends a call if it is still held as it was in that round: its client did not come back, or will
// not.
func (call *Call) expire(round int) {
	call.client.mu.Lock()
	defer call.client.mu.Unlock()
	if call.request == nil && call.round == round {
		call.expires.Stop()
		call.cancel()
		call.releaseLocked()
	}
}

// releaseLocked gives back what the call has reserved. After that, its client cannot continue it.
func (call *Call) releaseLocked() {
	s := call.client.store
	if call.id == "" {
		return
	}
	s.mu.Lock()
	delete(s.byID, call.id)
	s.mu.Unlock()
	s.reserve(call.client.counted, -1, -call.kept)
	call.id, call.kept = "", 0
}

// requiredLocked returns the result with the questions of the call.
func (call *Call) requiredLocked(state string) json.RawMessage {
	var requests, required jsonscan.Object
	for _, q := range call.asked {
		var one jsonscan.Object
		if one.Add("method", jsonscan.Quote(q.method)); len(q.params) > 0 {
			one.Add("params", q.params)
		}
		requests.Add(q.key, one.Close())
	}
	required.Add("resultType", []byte(`"input_required"`))
	required.Add("inputRequests", requests.Close())
	required.Add("requestState", jsonscan.Quote(state))
	return required.Close()
}

// Resume continues the held call that a requestState names, with the next request of its owner. See
// [IsHeld].
func (s *Store) Resume(owner string, r *Request, raw, responses json.RawMessage) (result json.RawMessage, failed bool, err error) {
	said, err := s.open(owner, r, raw)
	if err != nil {
		return nil, false, err
	}
	if said.instance != s.instance {
		return nil, false, errGatewayEnded(said.server)
	}
	s.mu.Lock()
	h := s.byID[said.id]
	s.mu.Unlock()
	if h == nil {
		return nil, false, errStateUsed
	}
	if err := h.take(r, said.round, responses); err != nil {
		return nil, false, err
	}
	return h.Await(r)
}

// take makes r the request of a held call, and passes its answers on. Questions that r does not answer
// are asked again.
func (call *Call) take(r *Request, round string, responses json.RawMessage) error {
	c := call.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.id == "" || call.request != nil || strconv.Itoa(call.round) != round {
		return errStateUsed
	}
	if call.target.Offered != nil && !call.target.Offered() { // a reload has hidden it
		call.expires.Stop()
		call.cancel()
		call.releaseLocked()
		return errStateUsed
	}
	answers := map[*heldQuestion]json.RawMessage{}
	err := jsonscan.EachMember(responses, func(key string, value []byte) error {
		at := slices.IndexFunc(call.asked, func(q *heldQuestion) bool { return q.key == key })
		switch {
		case at < 0: // the server has withdrawn it, or did not ask
		case value[0] != '{':
			return message.NotAnAnswer(key)
		default:
			answers[call.asked[at]] = value
		}
		return nil
	})
	if err != nil && len(responses) > 0 {
		return err
	}
	call.expires.Stop()
	call.request = r
	for q, answer := range answers {
		call.answerLocked(q, heldAnswer{result: bytes.Clone(answer)})
	}
	return nil
}
