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
	s *session

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

	postCount atomic.Uint64   // how many messages were POSTed
	remarks   jsonrpc.Remarks // the errors without an id; readStream adds to them
}

// openSSE opens the event stream and waits for the endpoint event. From then on the
// session sends its POSTs to the address in that event. ctx bounds only the opening. For
// strict see sseConn.
func (s *session) openSSE(ctx context.Context, strict bool) *endpoint.HTTPError {
	if !s.startTask() {
		return endpoint.AnswerLost("the session ended", s.Cause())
	}
	s.openingSSE.Store(true)
	c := &sseConn{s: s, share: s.exchanges.buffer.Share(), strict: strict, opened: make(chan *endpoint.HTTPError, 1), waiting: make(map[int64]*sseRequest)}
	stream := s.startExchange(s.ctx, 0)
	go func() {
		defer s.tasks.Done()
		defer stream.finish()
		c.readStream(stream)
	}()
	select {
	case httpErr := <-c.opened:
		s.openingSSE.Store(false)
		return httpErr
	case <-ctx.Done():
	}
	if !c.openingOver.CompareAndSwap(false, true) {
		s.openingSSE.Store(false)
		return <-c.opened
	}
	stream.end(jsonrpc.ContextEnd(ctx))
	return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server sent no endpoint event in time")
}

// readStream reads the event stream until it ends.
func (c *sseConn) readStream(stream *exchange) {
	s := c.s
	header := s.endpoint.NewHeader(1)
	header["Accept"] = headerEvents
	resp, httpErr := stream.get(s.endpoint, header)
	if httpErr != nil {
		c.opened <- httpErr
		return
	}
	if resp.StatusCode != http.StatusOK || !endpoint.IsEventStream(resp) {
		c.opened <- s.streamRefusedError(resp, endpoint.NoSession)
		return
	}
	defer resp.Body.Close()
	body := &openingBody{r: resp.Body, left: maxOpeningBytes}
	events := httpbody.NewEventReader(body, s.spec.Limits.MaxMessageBytes)
	defer events.Close()
	events.Memory = streamMemory{s, &c.share}
	defer c.share.Release()
	if httpErr := c.readEndpoint(events, resp); httpErr != nil {
		c.opened <- httpErr
		return
	}
	body.opened = true
	c.opened <- nil
	for {
		e, err := events.Next()
		if err != nil {
			s.end(c.streamEndCause(err))
			return
		}
		c.receiveEvent(e)
	}
}

// readEndpoint reads events up to the endpoint event, and makes the session send its POSTs
// to the address in that event. "When a client connects, the server MUST send an endpoint
// event containing a URI for the client to use for sending messages. All subsequent client
// messages MUST be sent as HTTP POST requests to this endpoint" (MCP 2024-11-05, HTTP with
// SSE).
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
			target, httpErr := c.parseEndpointEvent(event, resp)
			if httpErr == nil && !c.openingOver.CompareAndSwap(false, true) {
				httpErr = endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server named an endpoint too late")
			}
			if httpErr == nil {
				e.SendPostsTo(target)
				c.s.sse.Store(c)
				c.s.skipDelete.Store(true) // the end of the stream ends the session, so no DELETE is needed
			}
			return httpErr
		case c.strict:
			return endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the first event of the server's stream names no endpoint")
		case len(bytes.TrimSpace(event.Data)) > 0: // no message may come before the endpoint event
			c.s.discarded.Malformed.Add(1)
		}
	}
}

// parseEndpointEvent returns the address in an endpoint event. The address must have the
// origin of the endpoint, because headers and tokens are sent there. Relative addresses
// are resolved against the URL of the stream.
func (c *sseConn) parseEndpointEvent(event httpbody.Event, resp *http.Response) (*url.URL, *endpoint.HTTPError) {
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
		return nil, invalidEndpoint("that is not a valid URL")
	}
	if !endpoint.SameOrigin(target, e.URL) {
		httpErr := invalidEndpoint("at another origin: %s", e.CleanText(endpoint.BareURL(target)))
		httpErr.Hint = "headers and tokens are sent to " + e.HostPort + " only; correct the base URL in the server's or the proxy's configuration"
		return nil, httpErr
	}
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	return target, nil
}

// streamEndCause returns the cause of the end of a session whose stream ended with err.
func (c *sseConn) streamEndCause(err error) *supervisor.Cause {
	cause := &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the server ended its event stream, and with it the session"}
	if !errors.Is(err, io.EOF) {
		cause.Err = c.s.endpoint.CleanError(err)
		cause.Message = "the event stream of the server broke: " + c.s.endpoint.CleanText(err.Error())
	}
	return cause
}

// receiveEvent handles one event of the stream. The goroutine of readStream calls it.
func (c *sseConn) receiveEvent(e httpbody.Event) {
	s := c.s
	if e.Oversize {
		s.discarded.Oversize.Add(1)
		id, ok := jsonrpc.FindID(e.Data, e.Tail)
		if !ok && !bytes.Contains(e.Data, []byte(`"method"`)) {
			id, ok = c.onlyWaiting(false)
		}
		if ok {
			httpErr := endpoint.OversizeReply(s.spec.Limits.MaxMessageBytes)
			if e.Skipped {
				httpErr = noRoomReply()
			}
			c.deliver(id, sseAnswer{err: httpErr})
		}
		return
	}
	switch e.Name {
	case "", "message":
	case "endpoint": // only the first endpoint event counts
		s.discarded.Malformed.Add(1)
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
		s.discarded.Malformed.Add(1)
	default: // a batch (2025-03-26)
		jsonscan.EachItem(text, func(one []byte) bool {
			if one[0] == '{' {
				c.receiveMessage(one)
			} else {
				s.discarded.Malformed.Add(1)
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
	if isErrorWithoutID(&env) {
		c.receiveErrorWithoutID(text, &env)
		return
	}
	switch {
	case known && c.deliver(id, c.answerOf(text, &env)):
	case env.Result != nil || env.Error != nil:
		c.s.discarded.Unmatched.Add(1)
	default:
		c.s.discarded.Malformed.Add(1)
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
// they accept the POST, or never accept it. Exactly one goroutine receives the outcome of
// the POST and releases its memory: this one, that of finishPostInBackground, or, if
// abandoned is set, the one that sent the POST.
func (c *sseConn) roundTrip(x *exchange, id int64, body []byte, header http.Header) (reply, *endpoint.HTTPError) {
	r := c.addRequest(id)
	if !c.s.startTask() {
		a, _ := c.stopWaiting(id, r)
		a.share.Release()
		httpErr := endpoint.AnswerLost("the session ended", c.s.Cause())
		httpErr.Outcome = mcpvisor.OutcomeNotSent
		return reply{}, httpErr
	}
	posted := make(chan sseAnswer, 1)
	var abandoned atomic.Bool // the outcome of the POST is not needed
	handedOver := false       // another goroutine receives the outcome of the POST
	defer func() {
		if !handedOver {
			releasePosted(posted, &abandoned)
		}
	}()
	go func() {
		defer c.s.tasks.Done()
		posted <- c.postRequest(x, id, body, header)
		if abandoned.Load() {
			releasePosted(posted, &abandoned)
		}
	}()
	var got sseAnswer
	select {
	case got = <-r.answer:
		handedOver = c.finishPostInBackground(x, posted, &abandoned)
	case p := <-posted:
		got = c.afterPost(x, id, p, r)
	}
	x.memory.share.TakeOver(&got.share)
	if got.reply.errorMember != nil {
		got.reply.errorMember = c.s.endpoint.CleanJSON(got.reply.errorMember)
	}
	return got.reply, got.err
}

// afterPost returns the outcome of a request whose POST ended with p. After an accepted
// POST it waits for the answer on the stream. After any other POST it returns p, unless
// the answer on the stream has arrived, which then counts.
func (c *sseConn) afterPost(x *exchange, id int64, p sseAnswer, r *sseRequest) sseAnswer {
	if p.isAccepted() {
		select {
		case a := <-r.answer:
			return a
		case <-x.ctx.Done():
		}
		p.err = endpoint.AnswerLost("the request was canceled before its answer came", c.s.endpoint.CleanError(x.cause()))
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
