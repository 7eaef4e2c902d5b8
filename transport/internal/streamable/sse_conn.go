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
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxEndpointURL bounds the address in an endpoint event, in bytes.
const maxEndpointURL = 8 << 10

// sseConn is the connection of a session over HTTP+SSE (MCP 2024-11-05, transports, "HTTP
// with SSE"). One GET stays open, and its event stream carries every message of the
// server. The first event, "endpoint", contains the address to which the client POSTs its
// messages.
//
// The stream cannot be resumed, so its end is the end of the session. Safe for concurrent
// use.
type sseConn struct {
	exchanger *exchanger

	// opened gets the result of the opening once: nil after a valid endpoint event. It has
	// room for it.
	opened chan *endpoint.HTTPError
	// openingOver is set once: by the endpoint event or by the end of the time for it,
	// whichever comes first.
	openingOver atomic.Bool
	// strict: the opening fails if the first event is not "endpoint". It is set when it is
	// unknown whether the server speaks HTTP+SSE.
	strict bool

	// share is the part of Limits.MaxBufferBytes that the current event occupies. The
	// goroutine of readStream owns it.
	share budget.Share

	mu      sync.Mutex
	waiting map[int64]*sseRequest // the requests that wait for an answer, by id; guarded by mu

	accepted  atomic.Bool     // the server has accepted a message
	postCount atomic.Uint64   // how many messages were POSTed
	remarks   jsonrpc.Remarks // the errors without an id; readStream adds to them
}

// openSSE opens the event stream and waits for the endpoint event. From then on the
// session sends its POSTs to the address in that event. ctx bounds only the opening. For
// strict see sseConn.
func (n *negotiation) openSSE(ctx context.Context, strict bool) *endpoint.HTTPError {
	if !n.life.startTask() {
		return endpoint.AnswerLost("the session ended", n.life.cause())
	}
	n.openingSSE.Store(true)
	c := &sseConn{exchanger: n.exchanger, share: n.exchanger.table.buffer.Share(), strict: strict, opened: make(chan *endpoint.HTTPError, 1), waiting: make(map[int64]*sseRequest)}
	stream := n.exchanger.table.start(n.life.ctx, 0)
	go func() {
		defer n.life.tasks.Done()
		defer stream.finish()
		c.readStream(stream)
	}()
	select {
	case httpErr := <-c.opened:
		n.openingSSE.Store(false)
		return httpErr
	case <-ctx.Done():
	}
	if !c.openingOver.CompareAndSwap(false, true) {
		n.openingSSE.Store(false)
		return <-c.opened
	}
	stream.end(jsonrpc.ContextEnd(ctx))
	return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server sent no endpoint event in time")
}

// readStream reads the event stream until it ends.
func (c *sseConn) readStream(stream *exchange) {
	e := c.exchanger
	header := e.server.endpoint.NewHeader(1)
	header["Accept"] = headerEvents
	resp, httpErr := stream.get(e.server.endpoint, header)
	if httpErr != nil {
		c.opened <- httpErr
		return
	}
	if resp.StatusCode != http.StatusOK || !endpoint.IsEventStream(resp) {
		c.opened <- e.streamRefusedError(resp, endpoint.NoSession)
		return
	}
	defer resp.Body.Close()
	body := &openingBody{r: resp.Body, left: maxOpeningBytes}
	events := httpbody.NewEventReader(body, e.server.spec.Limits.MaxMessageBytes)
	defer events.Close()
	events.Reserver = streamReserver{e.life, &c.share}
	defer c.share.Release()
	if httpErr := c.readEndpoint(events, resp); httpErr != nil {
		c.opened <- httpErr
		return
	}
	body.opened = true
	c.opened <- nil
	for {
		event, err := events.Next()
		if err != nil {
			e.life.end(c.streamEndCause(err))
			return
		}
		c.receiveEvent(event)
	}
}

// readEndpoint reads events up to the endpoint event, and makes the session send its POSTs
// to the address in that event. "When a client connects, the server MUST send an endpoint
// event containing a URI for the client to use for sending messages. All subsequent client
// messages MUST be sent as HTTP POST requests to this endpoint" (MCP 2024-11-05, HTTP with
// SSE).
func (c *sseConn) readEndpoint(events *httpbody.EventReader, resp *http.Response) *endpoint.HTTPError {
	e := c.exchanger.server.endpoint
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
			address, httpErr := c.parseEndpointEvent(event, resp)
			if httpErr == nil && !c.openingOver.CompareAndSwap(false, true) {
				httpErr = endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server named an endpoint too late")
			}
			if httpErr == nil {
				e.SendPostsTo(address)
				c.exchanger.sse.Store(c) // the end of the stream ends the session, so no DELETE is needed
			}
			return httpErr
		case c.strict:
			return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the first event of the server's stream names no endpoint")
		case len(bytes.TrimSpace(event.Data)) > 0: // no message may come before the endpoint event
			c.exchanger.receiver.discarded.Malformed.Add(1)
		}
	}
}

// parseEndpointEvent returns the address in an endpoint event. The address must have the
// origin of the endpoint, because headers and tokens are sent there. Relative addresses
// are resolved against the URL of the stream.
func (c *sseConn) parseEndpointEvent(event httpbody.Event, resp *http.Response) (*url.URL, *endpoint.HTTPError) {
	e := c.exchanger.server.endpoint
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
	address, err := base.Parse(text)
	if err != nil {
		return nil, invalidEndpoint("that is not a valid URL")
	}
	if !endpoint.SameOrigin(address, e.URL) {
		httpErr := invalidEndpoint("at another origin: %s", e.CleanText(endpoint.BareURL(address)))
		httpErr.Hint = "headers and tokens are sent to " + e.HostPort + " only; correct the base URL in the server's or the proxy's configuration"
		return nil, httpErr
	}
	if own := c.exchanger.server.spec.HTTP.MessagesURL; own != "" {
		query := address.RawQuery
		if address, err = e.URL.Parse(own); err != nil || !endpoint.SameOrigin(address, e.URL) {
			return nil, invalidEndpoint("that MessagesURL cannot replace") // Validate refuses such a spec
		}
		if address.RawQuery == "" {
			address.RawQuery = query
		}
	}
	address.User, address.Fragment, address.RawFragment = nil, "", ""
	return address, nil
}

// streamEndCause returns the cause of the end of a session whose stream ended with err.
func (c *sseConn) streamEndCause(err error) *supervisor.Cause {
	cause := &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the server ended its event stream, and with it the session"}
	if !errors.Is(err, io.EOF) {
		cause.Err = c.exchanger.server.endpoint.CleanError(err)
		cause.Message = "the event stream of the server broke: " + c.exchanger.server.endpoint.CleanText(err.Error())
	}
	return cause
}

// receiveEvent handles one event of the stream. The goroutine of readStream calls it.
func (c *sseConn) receiveEvent(event httpbody.Event) {
	e := c.exchanger
	if event.Oversize {
		e.receiver.discarded.CountSkipped(event.Skipped)
		if event.Skipped && e.life.cause() != nil {
			return // the end of the session ended the wait for memory; it fails the call, too
		}
		id, ok := jsonrpc.FindID(event.Data, event.Tail)
		if !ok && !bytes.Contains(event.Data, []byte(`"method"`)) {
			id, ok = c.onlyWaiting(false)
		}
		if ok {
			httpErr := endpoint.OversizeReply(e.server.spec.Limits.MaxMessageBytes)
			if event.Skipped {
				httpErr = noRoomReply()
			}
			c.deliver(id, sseAnswer{err: httpErr})
		}
		return
	}
	switch event.Name {
	case "", "message":
	case "endpoint": // only the first endpoint event counts
		e.receiver.discarded.Malformed.Add(1)
		return
	default:
		return
	}
	text := bytes.TrimSpace(event.Data)
	switch {
	case len(text) == 0:
	case text[0] != '[':
		c.receiveMessage(text)
	case !json.Valid(text):
		e.receiver.discarded.Malformed.Add(1)
	default: // a batch (2025-03-26)
		jsonscan.EachItem(text, func(one []byte) bool {
			if one[0] == '{' {
				c.receiveMessage(one)
			} else {
				e.receiver.discarded.Malformed.Add(1)
			}
			return true
		})
	}
}

// receiveMessage handles one message of the server.
func (c *sseConn) receiveMessage(text []byte) {
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok || env.Method != nil {
		_, _, _ = c.exchanger.receiver.handleMessage(text, noRequestID, false) // a request or notification is handled; anything else is counted
		return
	}
	id, known := env.NumericID()
	if isErrorWithoutID(&env) {
		c.receiveErrorWithoutID(&env)
		return
	}
	switch {
	case known && c.deliver(id, c.answerOf(text, &env)):
	case env.Result != nil || env.Error != nil:
		c.exchanger.receiver.discarded.Unmatched.Add(1)
	default:
		c.exchanger.receiver.discarded.Malformed.Add(1)
	}
}

// answerOf returns the answer in a response of the server.
func (c *sseConn) answerOf(text []byte, env *jsonrpc.Envelope) sseAnswer {
	switch {
	case env.Error != nil:
		return sseAnswer{reply: reply{errorMember: env.Error}}
	case env.Malformed:
		return sseAnswer{err: endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the result is not valid JSON")}
	case env.Result == nil:
		return sseAnswer{err: endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer has neither a result nor an error")}
	}
	a := sseAnswer{reply: reply{result: cloneSmallPart(env.Result, text)}}
	a.share.TakeOver(&c.share)
	return a
}

// roundTrip POSTs one request and waits for its answer: on the stream, or in the response
// to the POST, as some servers send it.
//
// A goroutine of its own sends the POST, because some servers answer on the stream before
// they accept the POST, or never accept it. Its outcome is received here, or, if the answer
// came first, released by that goroutine.
func (c *sseConn) roundTrip(ex *exchange, id int64, body []byte, header http.Header) (reply, *endpoint.HTTPError) {
	r := c.addRequest(id, ex)
	posted := make(chan sseAnswer)
	unwanted := make(chan func(), 1) // the outcome of the POST is not needed; gets what to call after the POST
	started := c.exchanger.life.goTask(func() {
		p := c.postRequest(ex, id, body, header)
		select {
		case posted <- p:
		case finish := <-unwanted:
			p.share.Release()
			finish()
		}
	})
	if !started {
		a, _ := c.stopWaiting(id, r)
		a.share.Release()
		httpErr := endpoint.AnswerLost("the session ended", c.exchanger.life.cause())
		httpErr.Outcome = mcpvisor.OutcomeNotSent
		return reply{}, httpErr
	}
	var got sseAnswer
	select {
	case got = <-r.answer:
		c.accepted.Store(true) // also if the status of the POST comes later
		unwanted <- c.detachPost(ex)
	case p := <-posted:
		got = c.afterPost(ex, id, p, r)
	}
	ex.reserver.share.TakeOver(&got.share)
	if got.reply.errorMember != nil {
		got.reply.errorMember = c.exchanger.server.endpoint.CleanJSON(got.reply.errorMember)
	}
	return got.reply, got.err
}

// detachPost lets the POST of an answered request continue for at most drainTimeout, so that
// its connection can be reused. It returns what to call after the POST.
func (c *sseConn) detachPost(ex *exchange) (finish func()) {
	if !c.exchanger.startDrain(ex) {
		return func() {} // the POST ends with the exchange
	}
	limit := time.AfterFunc(drainTimeout, ex.finishDetached)
	return func() {
		limit.Stop()
		c.exchanger.endDrain(ex)
	}
}

// afterPost returns the outcome of a request whose POST ended with p. After an accepted
// POST it waits for the answer on the stream. After any other POST it returns p, unless
// the answer on the stream has arrived, which then counts.
func (c *sseConn) afterPost(ex *exchange, id int64, p sseAnswer, r *sseRequest) sseAnswer {
	if p.isAccepted() {
		select {
		case a := <-r.answer:
			return a
		case <-ex.ctx.Done():
		}
		p.err = endpoint.AnswerLost("the request was canceled before its answer came", c.exchanger.server.endpoint.CleanError(ex.cause()))
	}
	if p.err != nil {
		p.err.Remark = c.remarks.Since(r.remarks, nil)
	}
	if a, delivered := c.stopWaiting(id, r); delivered {
		p.share.Release()
		return a
	}
	return p
}

// postRequest POSTs one request. A server accepts it with a 2xx status; some servers put
// the answer into the body of that response.
func (c *sseConn) postRequest(ex *exchange, id int64, body []byte, header http.Header) (a sseAnswer) {
	e := c.exchanger
	reserver := &replyReserver{ctx: ex.ctx, share: e.table.buffer.Share()} // another goroutine owns that of the exchange
	defer func() { a.share.TakeOver(&reserver.share) }()
	resp, httpErr := ex.post(e.server.endpoint, body, header)
	if httpErr != nil {
		return sseAnswer{err: httpErr}
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		got, _, httpErr := e.readErrorStatus(resp, id, e.sessionRef(), reserver)
		return sseAnswer{reply: got, err: httpErr}
	}
	c.accepted.Store(true)
	text, _, _ := e.errorBody(resp, resp.Body, id, reserver)
	text = bytes.TrimSpace(text)
	if endpoint.IsHTML(resp.Header.Get("Content-Type"), nil) && endpoint.IsHTML("", text) {
		return sseAnswer{err: e.server.endpoint.HTMLReply(resp.StatusCode)}
	}
	if env, ok := jsonrpc.ScanEnvelope(text); ok && env.IsResponse() {
		got, found, httpErr := e.receiver.handleMessage(text, id, true)
		if found || httpErr != nil {
			return sseAnswer{reply: got, err: httpErr}
		}
	}
	return sseAnswer{}
}

// sseAnswer is the outcome of one request.
type sseAnswer struct {
	reply reply
	err   *endpoint.HTTPError
	// share is the part of Limits.MaxBufferBytes that the answer occupies. The receiver of
	// the answer releases it.
	share budget.Share
}

// isAccepted reports whether the server accepted the POST with a response that contains
// no answer.
func (a sseAnswer) isAccepted() bool {
	return a.err == nil && a.reply.result == nil && a.reply.errorMember == nil
}

// sseRequest is a request that waits for its answer. The fields are constant.
type sseRequest struct {
	answer chan sseAnswer // has room for one answer
	// posted and remarks are how many messages had been POSTed, and how many errors without
	// an id had been received, when the request was added.
	posted, remarks uint64
	exchange        *exchange
}

// addRequest adds a request to the table of requests that wait for an answer.
func (c *sseConn) addRequest(id int64, ex *exchange) *sseRequest {
	r := &sseRequest{answer: make(chan sseAnswer, 1), remarks: c.remarks.Count(), exchange: ex}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.posted = c.postCount.Add(1)
	c.waiting[id] = r
	return r
}

// deliver passes an answer to the request that waits for it. It reports false, and releases
// the memory of the answer, if no request with this id waits.
func (c *sseConn) deliver(id int64, a sseAnswer) bool {
	c.mu.Lock()
	r := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if r == nil {
		a.share.Release()
		return false
	}
	r.answer <- a // never blocks: the channel has room for one answer, and only the request in the table gets one
	return true
}

// stopWaiting removes a request from the table. delivered says that its answer was
// delivered before, and a is that answer. Call it once, and only if the answer was not
// received.
func (c *sseConn) stopWaiting(id int64, r *sseRequest) (a sseAnswer, delivered bool) {
	c.mu.Lock()
	delivered = c.waiting[id] == nil
	delete(c.waiting, id)
	c.mu.Unlock()
	if delivered {
		a = <-r.answer // deliver sends it right after it removed the request
	}
	return a, delivered
}

// failOnlyRequest fails the only request that waits with an error without an id, after
// jsonrpc.OrphanGrace. It reports false if there is no such request, if a message was POSTed
// after it, and as [exchange.failAfterGrace] does.
func (c *sseConn) failOnlyRequest(env *jsonrpc.Envelope) bool {
	id, only := c.onlyWaiting(true)
	c.mu.Lock()
	r := c.waiting[id]
	c.mu.Unlock()
	if !only || r == nil {
		return false
	}
	got := reply{errorMember: env.Error, orphan: true}.orphanAnswer(c.exchanger.server.endpoint)
	return r.exchange.failAfterGrace(func() { c.deliver(id, sseAnswer{reply: *got}) })
}

// onlyWaiting returns the id of the request that waits, if exactly one does. If last is
// true, it returns the id only if no message was POSTed after that request.
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

// receiveErrorWithoutID handles an error without an id; see jsonrpc/remarks.go. The error
// fails the request that waits, if exactly one waits, no other message was POSTed after it,
// and no answer comes in time. Otherwise the error may be about another message, and is
// recorded to explain requests that time out.
func (c *sseConn) receiveErrorWithoutID(env *jsonrpc.Envelope) {
	failed := jsonrpc.ServerError(c.exchanger.server.endpoint.CleanJSON(env.Error))
	if jsonrpc.MayFailRequest(failed) && c.failOnlyRequest(env) {
		return
	}
	if text, log := c.remarks.AddOrphan(failed, &c.exchanger.receiver.discarded); log {
		c.exchanger.server.log.Warn().Str("error", text).Msg("the server sent an error that names no request")
	}
}
