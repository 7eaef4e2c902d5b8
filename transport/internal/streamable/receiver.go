package streamable

import (
	"bytes"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// answerTimeout bounds the POST of an answer to a request of the server, because a server
// that does not accept answers keeps one connection busy for each.
const answerTimeout = 30 * time.Second

// maxServerRequests bounds how many requests of the server are served at a time.
const maxServerRequests = 256

// receiver gets the messages of the server from every response and stream. It returns the
// answer to a request to the reader of that response, and handles all other messages itself.
// Safe for concurrent use.
//
// Fields without a remark are set by newReceiver and not changed afterwards.
type receiver struct {
	exchanger *exchanger
	handler   *inbound.Handler
	opened    chan struct{} // closed when the session is open
	// requests are those of the server that are being served. It has its own mutex.
	requests inbound.Requests
	// notifications passes notifications of the server to the function of OnNotice. It has
	// its own mutex; every goroutine that reads from the server calls it.
	notifications jsonrpc.Notifications
	// discarded counts what was received and not used. Its counters are atomic.
	discarded jsonrpc.Discarded
}

// newReceiver makes the receiver of a session. The endpoint of the session must be set.
func newReceiver(e *exchanger, handler *inbound.Handler) *receiver {
	r := &receiver{exchanger: e, handler: handler, opened: make(chan struct{})}
	handler.Opened = r.opened
	r.requests = inbound.Requests{Handler: handler, Calls: &e.table.requests, Go: e.life.goTask, Reply: r.postReply,
		Room: inbound.Allowance{Max: maxServerRequests}}
	r.notifications.OnProgress = e.life.received.Note
	if e.server.endpoint != nil {
		r.notifications.Redact = e.server.endpoint.Redact
		handler.Redactor = e.server.endpoint.Redact
	}
	return r
}

// noRequestID is an id that no request has. On a stream that answers no request, handleMessage
// gets it, and counts every answer as unmatched.
const noRequestID = -1

// handleMessage handles one message of the server, or a batch, and returns the answer to
// the request with this id if the text contains it. sole says that the text can only be
// about that request, so that an error without an id answers it.
func (r *receiver) handleMessage(text []byte, id int64, sole bool) (got reply, found bool, httpErr *endpoint.HTTPError) {
	if len(text) > 0 && text[0] == '[' {
		return r.handleBatch(text, id, sole)
	}
	env, ok := jsonrpc.ScanEnvelope(text)
	if !ok {
		r.discarded.Malformed.Add(1)
		return reply{}, false, nil
	}
	if env.Method == nil && (env.Result != nil || env.Error != nil) {
		n, numeric := env.NumericID()
		soleError := sole && isErrorWithoutID(&env)
		switch {
		case !(numeric && n == id) && !soleError:
			r.discarded.Unmatched.Add(1)
			r.exchanger.table.requests.AnsweredLate(n)
			return reply{}, false, nil
		case env.Error != nil:
			return reply{errorMember: env.Error, orphan: soleError && !(numeric && n == id)}, true, nil
		case env.Malformed:
			return reply{}, false, endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the result is not valid JSON")
		}
		return reply{result: env.Result}, true, nil
	}
	if env.Method == nil {
		r.discarded.Malformed.Add(1)
		return reply{}, false, nil
	}
	if r.notifications.Dispatch(&env, id, &r.exchanger.table.requests, &r.discarded) {
		return reply{}, false, nil
	}
	r.receiveMessage(text, &env, id)
	return reply{}, false, nil
}

// handleBatch calls handleMessage for each message of a batch (MCP 2025-03-26). A batch
// within a batch is malformed. An error without an id is an answer only if it is the only
// message.
func (r *receiver) handleBatch(text []byte, id int64, sole bool) (got reply, found bool, httpErr *endpoint.HTTPError) {
	if !jsonscan.Valid(text) {
		return reply{}, false, nil
	}
	if sole {
		n := 0
		jsonscan.EachItem(text, func([]byte) bool { n++; return n < 2 })
		sole = n == 1
	}
	jsonscan.EachItem(text, func(item []byte) bool {
		if item[0] != '{' {
			r.discarded.Malformed.Add(1)
			return true
		}
		one, isAnswer, itemErr := r.handleMessage(item, id, sole)
		if isAnswer {
			got, found = one, true
		}
		httpErr = itemErr
		return httpErr == nil
	})
	if httpErr != nil {
		return reply{}, false, httpErr
	}
	return got, found, nil
}

// handleEvent handles one event, and returns the answer to the request with this id if
// the event contains it.
func (r *receiver) handleEvent(e httpbody.Event, id int64) (got reply, found bool, httpErr *endpoint.HTTPError) {
	if e.Oversize {
		r.discarded.CountSkipped(e.Skipped)
		if e.Skipped {
			return reply{}, false, nil
		}
		if n, ok := jsonrpc.FindID(e.Data, e.Tail); ok && n == id || !ok && !bytes.Contains(e.Data, []byte(`"method"`)) {
			return reply{}, false, endpoint.OversizeReply(r.exchanger.server.spec.Limits.MaxMessageBytes)
		}
		return reply{}, false, nil
	}
	if e.Name != "" && e.Name != "message" {
		return reply{}, false, nil
	}
	text := bytes.TrimSpace(e.Data)
	if len(text) == 0 {
		return reply{}, false, nil
	}
	got, found, httpErr = r.handleMessage(text, id, id != noRequestID) // the stream of a request carries no other answer
	got.result = cloneSmallPart(got.result, text)
	return got, found, httpErr
}

// receiveMessage handles a request or notification of the server. call is the id of the
// request on whose response the message arrived; noRequestID if it arrived on another
// stream. A request for which there is no room is dropped and counted, and not answered, because an
// answer would need one more connection.
func (r *receiver) receiveMessage(text []byte, env *jsonrpc.Envelope, call int64) {
	if inbound.IsRequest(env) && r.exchanger.server.isModern() { // since 2026-07-28 servers send no requests
		return
	}
	if r.requests.Receive(text, env, call, &r.discarded) {
		r.discarded.Dropped.Add(1)
	}
}

// postReply sends the answer to a request of the server. It waits until the session is
// open, because the answer must carry the session id.
func (r *receiver) postReply(line []byte) {
	e := r.exchanger
	select {
	case <-r.opened:
	case <-e.life.lifetime.Dead():
		return
	}
	if e.life.lifetime.Cause() != nil { // both were ready
		return
	}
	ex := e.table.start(e.life.ctx, answerTimeout)
	defer ex.finish()
	_ = e.post(ex, line, e.server.agreed.Load().header) // post ends the session if the error requires it
}
