package streamable

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
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxEndpointURL bounds the address for POSTs that a server names, in bytes.
const maxEndpointURL = 8 << 10

// sseConn is the connection of a session over HTTP+SSE (MCP 2024-11-05, transports,
// "HTTP with SSE"). One GET stays open: its event stream carries every message of
// the server. The first event names the address to which the client POSTs its
// messages.
//
// The stream is the session. It cannot be resumed, and its end is the end of the
// session. Safe for concurrent use.
type sseConn struct {
	s *session

	// opened gets the result of the opening, once: nil when the server has named the
	// address.
	opened chan *endpoint.HTTPError
	// openingOver is set once, by the endpoint event or by the end of the time for it,
	// whichever comes first.
	openingOver atomic.Bool
	// strict: the opening fails at the first event that is no "endpoint". Set when it
	// is not known whether the server speaks HTTP+SSE at all.
	strict bool

	// share is the part of Limits.MaxBufferBytes that the current event holds. The
	// goroutine of run owns it.
	share budget.Share

	mu      sync.Mutex
	waiting map[int64]*sseRequest // the requests that wait for an answer; guarded by mu

	postCount atomic.Uint64   // how many messages were POSTed
	remarks   jsonrpc.Remarks // the errors without an id; run adds to them
	orphans   *rate.Limiter   // limits the log lines about them
}

// sseAnswer is the outcome of one request.
type sseAnswer struct {
	reply
	err *endpoint.HTTPError
	// share is the part of Limits.MaxBufferBytes that the answer holds. The receiver
	// releases it.
	share budget.Share
}

// openSSE opens the event stream and waits until the server has named the address
// for POSTs. From then on the session sends its POSTs there. ctx bounds the opening
// only; the stream outlives it.
func (s *session) openSSE(ctx context.Context, strict bool) *endpoint.HTTPError {
	if !s.startTask() {
		return endpoint.ConnectionLost("the session ended", s.Cause())
	}
	s.openingSSE.Store(true)
	c := &sseConn{s: s, share: s.exchanges.buffer.Share(), strict: strict, opened: make(chan *endpoint.HTTPError, 1), waiting: make(map[int64]*sseRequest),
		orphans: rate.NewLimiter(jsonrpc.OrphanLogRate, 1)}
	stream := s.startExchange(s.ctx, 0)
	go func() {
		defer s.tasks.Done()
		defer stream.finish()
		c.run(stream)
	}()
	select {
	case f := <-c.opened:
		s.openingSSE.Store(false)
		return f
	case <-ctx.Done():
	}
	if !c.openingOver.CompareAndSwap(false, true) {
		s.openingSSE.Store(false)
		return <-c.opened
	}
	stream.end(jsonrpc.ContextEnd(ctx))
	return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server opened no event stream that names an endpoint, in the time that there was")
}

// run reads the event stream until it ends.
func (c *sseConn) run(stream *exchange) {
	s := c.s
	header := s.endpoint.NewHeader(1)
	header["Accept"] = headerEvents
	resp, f := stream.get(s.endpoint, header)
	if f != nil {
		c.opened <- f
		return
	}
	if resp.StatusCode != http.StatusOK || !endpoint.IsEventStream(resp) {
		c.opened <- s.streamRefusedError(resp, endpoint.NoSession)
		return
	}
	defer resp.Body.Close()
	opening := &openingBody{r: resp.Body, left: maxOpeningBytes}
	events := httpbody.NewEventReader(opening, s.spec.Limits.MaxMessageBytes)
	s.reserveForEvents(events, &c.share)
	defer c.share.Release()
	if f := c.readEndpoint(events, resp); f != nil {
		c.opened <- f
		return
	}
	opening.opened = true
	c.opened <- nil
	for {
		e, err := events.Next()
		if err != nil {
			s.end(c.streamEndCause(err))
			return
		}
		c.receive(e)
	}
}

// readEndpoint reads up to the event that names the address for POSTs.
func (c *sseConn) readEndpoint(events *httpbody.EventReader, resp *http.Response) *endpoint.HTTPError {
	e := c.s.endpoint
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server ended its event stream without naming an endpoint")
		case errors.Is(err, errOpeningTooLong):
			return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "%v", err)
		case err != nil:
			return e.ConnectionLost("the event stream broke before the server named an endpoint: ", err)
		case event.Name == "endpoint":
			target, f := c.address(event, resp)
			if f == nil && !c.openingOver.CompareAndSwap(false, true) {
				f = endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server named an endpoint too late")
			}
			if f == nil {
				e.SendPostsTo(target)
				c.s.sse.Store(c)
				c.s.forgotten.Store(true) // no DELETE is needed: the end of the stream ends the session
			}
			return f
		case c.strict:
			return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the first event of the server's stream names no endpoint")
		case len(bytes.TrimSpace(event.Data)) > 0: // no message may come before the endpoint event
			c.s.noise.Malformed.Add(1)
		}
	}
}

// address reads an endpoint event. The address must have the origin of the stream,
// because the headers and tokens of the endpoint are sent there.
func (c *sseConn) address(event httpbody.Event, resp *http.Response) (*url.URL, *endpoint.HTTPError) {
	e := c.s.endpoint
	text := string(bytes.TrimSpace(event.Data))
	if text == "" {
		return nil, invalidEndpoint("that is empty")
	}
	if event.Oversize || len(text) > maxEndpointURL {
		return nil, invalidEndpoint("that is longer than %d bytes", maxEndpointURL)
	}
	base := e.URL
	if resp.Request != nil && resp.Request.URL != nil { // the GET was redirected within the origin
		base = resp.Request.URL
	}
	target, err := base.Parse(text)
	if err != nil {
		return nil, invalidEndpoint("that is no URL")
	}
	if !endpoint.SameOrigin(target, e.URL) {
		f := invalidEndpoint("at another origin: %s", e.Clean(endpoint.BareURL(target)))
		f.Hint = "headers and tokens are sent to " + e.HostPort + " only; correct the base URL in the server's or the proxy's configuration"
		return nil, f
	}
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	return target, nil
}

// streamEndCause is the cause of the end of a session whose stream has ended.
func (c *sseConn) streamEndCause(err error) *supervisor.Cause {
	cause := &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the server ended its event stream, which is the session"}
	if !errors.Is(err, io.EOF) {
		cause.Err = c.s.endpoint.CleanError(err)
		cause.Message = "the event stream of the server broke: " + c.s.endpoint.Clean(err.Error())
	}
	return cause
}

// receive handles one event.
func (c *sseConn) receive(e httpbody.Event) {
	s := c.s
	if e.Oversize {
		s.noise.Oversize.Add(1)
		id, ok := jsonrpc.FindID(e.Data, e.Tail)
		if !ok && !bytes.Contains(e.Data, []byte(`"method"`)) {
			id, ok = c.onlyWaiting(false)
		}
		if ok {
			f := endpoint.OversizeReply(s.spec.Limits.MaxMessageBytes)
			if e.Skipped {
				f = noRoomReply()
			}
			c.deliver(id, sseAnswer{err: f})
		}
		return
	}
	switch e.Name {
	case "", "message":
	case "endpoint": // only the first endpoint event counts
		s.noise.Malformed.Add(1)
		return
	default:
		return
	}
	text := bytes.TrimSpace(e.Data)
	switch {
	case len(text) == 0:
	case text[0] != '[':
		c.receiveMessage(text)
	case !json.Valid(text):
		s.noise.Malformed.Add(1)
	default: // a batch (2025-03-26)
		jsonscan.EachItem(text, func(one []byte) bool {
			if one[0] == '{' {
				c.receiveMessage(one)
			} else {
				s.noise.Malformed.Add(1)
			}
			return true
		})
	}
}

// receiveMessage handles one message of the server.
func (c *sseConn) receiveMessage(text []byte) {
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok || env.Method != nil {
		_, _, _ = c.s.handleMessage(text, noRequestID, false) // a request or notification is handled; anything else is counted
		return
	}
	id, known := env.NumericID()
	if env.Error != nil && (env.ID == nil || string(env.ID) == "null") {
		c.receiveOrphan(text, &env)
		return
	}
	switch {
	case known && c.deliver(id, c.answerOf(text, &env)):
	case env.Result != nil || env.Error != nil:
		c.s.noise.Unmatched.Add(1)
	default:
		c.s.noise.Malformed.Add(1)
	}
}

// answerOf is the answer that a message carries.
func (c *sseConn) answerOf(text []byte, env *jsonrpc.Envelope) sseAnswer {
	switch {
	case env.Error != nil:
		return sseAnswer{reply: reply{errorMember: env.Error}}
	case env.Malformed:
		return sseAnswer{err: endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the result is not valid JSON")}
	case env.Result == nil:
		return sseAnswer{err: endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer has neither a result nor an error")}
	}
	a := sseAnswer{reply: reply{result: detachPart(env.Result, text)}}
	a.share.TakeOver(&c.share)
	return a
}

// deliver hands an answer to the request that waits for it. It reports false if no
// request with this id waits.
func (c *sseConn) deliver(id int64, a sseAnswer) bool {
	c.mu.Lock()
	r := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if r == nil {
		a.share.Release()
		return false
	}
	r.answer <- a // never blocks: the channel holds one answer, and the request left the table
	return true
}

// stopWaiting removes a request from the table. came says that its answer was
// delivered meanwhile, and a is that answer. Call it once, and only if the answer
// was not received.
func (c *sseConn) stopWaiting(id int64, r *sseRequest) (a sseAnswer, came bool) {
	c.mu.Lock()
	came = c.waiting[id] == nil
	delete(c.waiting, id)
	c.mu.Unlock()
	if came {
		a = <-r.answer // deliver sends it at once
	}
	return a, came
}

// onlyWaiting is the id of the request that waits, if exactly one does. With last,
// no other message may have been POSTed after that request.
func (c *sseConn) onlyWaiting(last bool) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) != 1 {
		return 0, false
	}
	for id, r := range c.waiting {
		return id, !last || r.posted == c.postCount.Load()
	}
	return 0, false
}

// exchange POSTs one request and waits for its answer on the stream.
func (c *sseConn) exchange(x *exchange, id int64, body []byte, header http.Header) (reply, *endpoint.HTTPError) {
	r := c.addRequest(id)
	if !c.s.startTask() {
		a, _ := c.stopWaiting(id, r)
		a.share.Release()
		f := endpoint.ConnectionLost("the session ended", c.s.Cause())
		f.Outcome = mcpvisor.OutcomeNotSent
		return reply{}, f
	}
	posted := make(chan sseAnswer, 1)
	var left atomic.Bool // the outcome of the POST is not needed any more
	leaves := false      // another goroutine takes the outcome of the POST
	defer func() {
		if !leaves {
			releasePosted(posted, &left)
		}
	}()
	go func() {
		defer c.s.tasks.Done()
		posted <- c.post(x, id, body, header)
		if left.Load() {
			releasePosted(posted, &left)
		}
	}()
	var got sseAnswer
	select {
	case got = <-r.answer:
		leaves = c.finishPostInBackground(x, posted, &left)
	case p := <-posted:
		got = c.afterPost(x, id, p, r)
	}
	x.share.TakeOver(&got.share)
	if got.errorMember != nil {
		got.errorMember = c.s.endpoint.CleanJSON(got.errorMember)
	}
	return got.reply, got.err
}

// accepted reports whether the POST was accepted, and its response carries no
// answer.
func (a sseAnswer) accepted() bool { return a.err == nil && a.result == nil && a.errorMember == nil }

// afterPost is the outcome of a request whose POST ended with p: the answer on the
// stream if that has come, whatever p says. After an accepted POST it waits for that
// answer.
func (c *sseConn) afterPost(x *exchange, id int64, p sseAnswer, r *sseRequest) sseAnswer {
	if p.accepted() {
		select {
		case a := <-r.answer:
			return a
		case <-x.ctx.Done():
		}
		p.err = endpoint.ConnectionLost("the request was given up before its answer came", c.s.endpoint.CleanError(x.cause()))
	}
	if p.err != nil {
		p.err.Remark = c.remarks.Since(r.remarks, nil)
	}
	if a, came := c.stopWaiting(id, r); came {
		p.share.Release()
		return a
	}
	return p
}
