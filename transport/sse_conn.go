package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// maxEndpointURL bounds the address that a server names for our messages.
const maxEndpointURL = 8 << 10

// sseConn is the channel of a session over HTTP+SSE (MCP 2024-11-05, transports,
// "HTTP with SSE"): one GET whose event stream carries every message of the
// server, and an address, named by the first event, that takes every message of
// the client as a POST.
//
// The stream is the session: it cannot be resumed, and its end is the end of the
// session. Safe for concurrent use.
type sseConn struct {
	s *httpSession

	// named gets the outcome of the opening, once: nil when the server has named
	// the address.
	named chan *fault
	// opened is taken by whichever comes first: the endpoint event, or the end of
	// the time for it.
	opened atomic.Bool
	// strict ends the opening at the first event that is no "endpoint". Set when
	// it is not known whether the server speaks HTTP+SSE at all.
	strict bool

	// share is what the current event holds of Limits.Buffer. It belongs to run.
	share budget.Share

	mu      sync.Mutex
	waiting map[int64]*sseRequest // the requests of ours that have no answer yet

	posted  atomic.Uint64 // how many messages of ours were POSTed
	remarks remarks       // the errors without an id; run adds
	orphans *rate.Limiter // of what is logged of them
}

// sseAnswer is what became of one request.
type sseAnswer struct {
	reply
	fault *fault
	// share is what it holds of Limits.Buffer; whoever gets it releases it.
	share budget.Share
}

// openSSE opens the event stream and waits until the server has named the address
// for POSTs. From then on the session sends there. The stream outlives ctx, which
// bounds the opening only.
func (s *httpSession) openSSE(ctx context.Context, strict bool) *fault {
	if !s.enter() {
		return brokenFault("the session ended", s.Cause())
	}
	s.openingSSE.Store(true)
	c := &sseConn{s: s, share: s.bonds.buffer.Share(), strict: strict, named: make(chan *fault, 1), waiting: make(map[int64]*sseRequest),
		orphans: rate.NewLimiter(orphanLog, 1)}
	stream := s.bonds.bind(s.ctx, 0)
	go func() {
		defer s.work.Done()
		defer stream.finish()
		c.run(stream)
	}()
	select {
	case f := <-c.named:
		s.openingSSE.Store(false)
		return f
	case <-ctx.Done():
	}
	if !c.opened.CompareAndSwap(false, true) {
		s.openingSSE.Store(false)
		return <-c.named
	}
	stream.end(ctx.Err(), causeOf(ctx))
	return badReply(mcpvisor.OutcomeNotSent, "the server opened no event stream that names an endpoint, in the time that there was")
}

// run reads the stream from its opening to its end.
func (c *sseConn) run(stream *bond) {
	s := c.s
	header := s.endpoint.header(1)
	header["Accept"] = headerEvents
	resp, f := s.endpoint.do(stream, http.MethodGet, nil, header)
	if f != nil {
		c.named <- f
		return
	}
	if resp.StatusCode != http.StatusOK || !isEventStream(resp) {
		c.named <- s.streamRefused(resp, noSession)
		return
	}
	defer resp.Body.Close()
	opening := &openingBody{r: resp.Body, left: maxOpening}
	events := newSSEReader(opening, s.spec.Limits.MaxMessageBytes)
	s.bufferStream(events, &c.share)
	defer c.share.Release()
	if f := c.begin(events, resp); f != nil {
		c.named <- f
		return
	}
	opening.opened = true
	c.named <- nil
	for {
		e, err := events.next()
		if err != nil {
			s.end(c.streamEnd(err))
			return
		}
		c.receive(e)
	}
}

// begin reads up to the event that names the address for POSTs.
func (c *sseConn) begin(events *sseReader, resp *http.Response) *fault {
	e := c.s.endpoint
	for {
		event, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			return badReply(mcpvisor.OutcomeNotSent, "the server ended its event stream without naming an endpoint")
		case errors.Is(err, errLongOpening):
			return badReply(mcpvisor.OutcomeNotSent, "%v", err)
		case err != nil:
			return e.broken("the event stream broke before the server named an endpoint: ", err)
		case event.name == "endpoint":
			target, f := c.address(event, resp)
			if f == nil && !c.opened.CompareAndSwap(false, true) {
				f = badReply(mcpvisor.OutcomeNotSent, "the server named an endpoint too late")
			}
			if f == nil {
				e.sendPostsTo(target)
				c.s.sse.Store(c)
				c.s.forgotten.Store(true) // no DELETE: closing the stream ends the session
			}
			return f
		case c.strict:
			return badReply(mcpvisor.OutcomeNotSent, "the first event of the server's stream names no endpoint")
		case len(bytes.TrimSpace(event.data)) > 0: // too early for a message
			c.s.noise.junk.Add(1)
		}
	}
}

// address reads an endpoint event. The address must have the origin of the
// stream: the headers and tokens of the endpoint go there.
func (c *sseConn) address(event sseEvent, resp *http.Response) (*url.URL, *fault) {
	e := c.s.endpoint
	text := string(bytes.TrimSpace(event.data))
	if text == "" {
		return nil, badEndpoint("that is empty")
	}
	if event.over || len(text) > maxEndpointURL {
		return nil, badEndpoint("that is longer than %d bytes", maxEndpointURL)
	}
	base := e.url
	if resp.Request != nil && resp.Request.URL != nil { // a redirect within the origin
		base = resp.Request.URL
	}
	target, err := base.Parse(text)
	if err != nil {
		return nil, badEndpoint("that is no URL")
	}
	if !sameOrigin(target, e.url) {
		f := badEndpoint("at another origin: %s", e.clean(bareURL(target)))
		f.hint = "headers and tokens are sent to " + e.hostport + " only; correct the base URL in the server's or the proxy's configuration"
		return nil, f
	}
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	return target, nil
}

// streamEnd is the cause of death of a session whose stream has ended.
func (c *sseConn) streamEnd(err error) *supervisor.Cause {
	cause := &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the server ended its event stream, which is the session"}
	if !errors.Is(err, io.EOF) {
		cause.Err = c.s.endpoint.cleanError(err)
		cause.Message = "the event stream of the server broke: " + c.s.endpoint.clean(err.Error())
	}
	return cause
}

// receive handles one event.
func (c *sseConn) receive(e sseEvent) {
	s := c.s
	if e.over {
		s.noise.oversize.Add(1)
		id, ok := edgeID(e.data, e.tail)
		if !ok && !bytes.Contains(e.data, []byte(`"method"`)) {
			id, ok = c.onlyWaiting(false)
		}
		if ok {
			f := oversizeReply(s.spec.Limits.MaxMessageBytes)
			if e.crowded {
				f = noRoomReply()
			}
			c.deliver(id, sseAnswer{fault: f})
		}
		return
	}
	switch e.name {
	case "", "message":
	case "endpoint": // a later one is not believed
		s.noise.junk.Add(1)
		return
	default:
		return
	}
	text := bytes.TrimSpace(e.data)
	switch {
	case len(text) == 0:
	case text[0] != '[':
		c.message(text)
	case !json.Valid(text):
		s.noise.junk.Add(1)
	default: // a batch (2025-03-26)
		jsonscan.EachItem(text, func(one []byte) bool {
			if one[0] == '{' {
				c.message(one)
			} else {
				s.noise.junk.Add(1)
			}
			return true
		})
	}
}

// message handles one message of the server.
func (c *sseConn) message(text []byte) {
	env, ok := scanEnvelope(text)
	if !ok || env.method != nil {
		_, _, _ = c.s.answerIn(text, noID, false) // no answer: passed on, or counted as junk
		return
	}
	id, known := env.numericID()
	if env.errorm != nil && (env.id == nil || string(env.id) == "null") {
		c.orphaned(text, &env)
		return
	}
	switch {
	case known && c.deliver(id, c.answerOf(text, &env)):
	case env.result != nil || env.errorm != nil:
		c.s.noise.unmatched.Add(1)
	default:
		c.s.noise.junk.Add(1)
	}
}

// answerOf is the answer that a message carries.
func (c *sseConn) answerOf(text []byte, env *envelope) sseAnswer {
	switch {
	case env.errorm != nil:
		return sseAnswer{reply: reply{errorm: env.errorm}}
	case env.malformed:
		return sseAnswer{fault: badReply(mcpvisor.OutcomeAnswered, "the result is not valid JSON")}
	case env.result == nil:
		return sseAnswer{fault: badReply(mcpvisor.OutcomeAnswered, "the answer has neither a result nor an error")}
	}
	a := sseAnswer{reply: reply{result: ownPart(env.result, text)}}
	a.share.Take(&c.share)
	return a
}

// deliver ends the wait for an answer. It reports false if there is no such wait.
func (c *sseConn) deliver(id int64, a sseAnswer) bool {
	c.mu.Lock()
	r := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if r == nil {
		a.share.Release()
		return false
	}
	r.answer <- a // has room for one, and is sent one
	return true
}

// stopWaiting ends the wait for an answer. It returns the answer if that has come.
// Call it once, and only if the answer was not received.
func (c *sseConn) stopWaiting(id int64, r *sseRequest) (a sseAnswer, came bool) {
	c.mu.Lock()
	came = c.waiting[id] == nil
	delete(c.waiting, id)
	c.mu.Unlock()
	if came {
		a = <-r.answer // deliver sends it without waiting
	}
	return a, came
}

// onlyWaiting is the id of the request under way, if there is exactly one. last asks
// that no other message of ours was POSTed after it.
func (c *sseConn) onlyWaiting(last bool) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) != 1 {
		return 0, false
	}
	for id, r := range c.waiting {
		return id, !last || r.posted == c.posted.Load()
	}
	return 0, false
}

// exchange POSTs one request and waits for its answer on the stream.
func (c *sseConn) exchange(b *bond, id int64, body []byte, header http.Header) (reply, *fault) {
	r := c.addRequest(id)
	if !c.s.enter() {
		a, _ := c.stopWaiting(id, r)
		a.share.Release()
		f := brokenFault("the session ended", c.s.Cause())
		f.outcome = mcpvisor.OutcomeNotSent
		return reply{}, f
	}
	posted := make(chan sseAnswer, 1)
	var left atomic.Bool // what is posted is wanted no more
	leaves := false      // somebody else waits for it
	defer func() {
		if !leaves {
			dropPosted(posted, &left)
		}
	}()
	go func() {
		defer c.s.work.Done()
		posted <- c.post(b, id, body, header)
		if left.Load() {
			dropPosted(posted, &left)
		}
	}()
	var got sseAnswer
	select {
	case got = <-r.answer:
		leaves = c.leavePost(b, posted, &left)
	case p := <-posted:
		got = c.afterPost(b, id, p, r)
	}
	b.share.Take(&got.share)
	if got.errorm != nil {
		got.errorm = c.s.endpoint.cleanJSON(got.errorm)
	}
	return got.reply, got.fault
}

// accepted reports whether a POST says no more than that the answer will come.
func (a sseAnswer) accepted() bool { return a.fault == nil && a.result == nil && a.errorm == nil }

// afterPost is the outcome of a request whose POST ended with p: the answer on the
// stream if it has come, whatever the POST says. An accepted POST waits for it.
func (c *sseConn) afterPost(b *bond, id int64, p sseAnswer, r *sseRequest) sseAnswer {
	if p.accepted() {
		select {
		case a := <-r.answer:
			return a
		case <-b.Done():
		}
		p.fault = brokenFault("the request was given up before its answer came", c.s.endpoint.cleanError(b.Cause()))
	}
	if p.fault != nil {
		p.fault.remark = c.remarks.since(r.remarks, nil)
	}
	if a, came := c.stopWaiting(id, r); came {
		p.share.Release()
		return a
	}
	return p
}
