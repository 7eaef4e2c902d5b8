package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// serverRequestMax bounds one request of a server, in bytes. A longer request is rejected
// before it is decoded.
const serverRequestMax = 16 << 20

const (
	methodPing = "ping"
	// methodCancelled is the method of a cancellation as JSON, with its quotes.
	methodCancelled = `"notifications/cancelled"`
)

// Requests serves the JSON-RPC requests of the server of one session: ping, sampling,
// elicitation and roots. They do not pass through the go-sdk session.
//
// A request is checked by its method and size before its parameters are decoded. Each
// accepted request has a goroutine, which answers with the id as the server wrote it. Safe
// for concurrent use.
type Requests struct {
	// Set before the first request comes, never changed.

	// Handler serves all methods except ping; nil: they are rejected.
	Handler *Handler
	// Calls are the clocks of the calls in flight.
	Calls CallClocks
	// Go runs a function in a goroutine that the release of the session waits for. It
	// reports false if the session is ending.
	Go func(func()) bool
	// Reply writes a response. It returns when the response was sent or cannot be sent.
	Reply func(line []byte)

	mu   sync.Mutex          // guards the fields below, and request.withdrawn
	Room Allowance           // of the requests in open and of the answers being written
	open map[string]*request // by idKey
}

// CallClocks are the clocks of the calls of one session; [jsonrpc.Table] implements it. call
// is the id of a call of this client. With 0 or less it is not known to which call a server
// request belongs, and every call in flight counts.
type CallClocks interface {
	// AnswererOf returns the handlers of the call that a server request belongs to, nil for those
	// of the client, and its id, if that is known. ok is false if it may belong to calls of
	// several answerers.
	AnswererOf(call int64, method string) (handlers *transport.CallHandlers, id int64, ok bool)
	// CountRequest counts one server request. It reports false if each call that it may
	// belong to has had jsonrpc.MaxRequestsPerCall.
	CountRequest(call int64) bool
	// PauseClocks stops the idle clocks while a handler answers a request. restart ends the
	// pause; answered says whether the handler returned a result.
	PauseClocks(call int64) (restart func(answered bool))
}

// request is one request of the server.
type request struct {
	id     []byte // as the server wrote it
	key    string // idKey of id
	method string
	params []byte
	size   int   // bytes that count in Requests.Room
	call   int64 // the call that it belongs to; see CallClocks
	by     answerer
	cancel context.CancelCauseFunc
	// withdrawn: the server cancelled the request, so it gets no answer. Requests.mu guards
	// it.
	withdrawn bool
}

// admission says what becomes of a request of the server.
type admission uint8

const (
	admitted  admission = iota // it is being served, or gets an error as its answer
	malformed                  // it is no valid JSON-RPC request, or its id is that of one that is being served
	noRoom                     // too many requests, or too many bytes of requests, are being served
)

// Receive handles a message of the server that is no answer and that Dispatch of
// [jsonrpc.Notifications] does not know: a request, a cancellation, or a notification that needs
// the handlers of the host. It does not block. text is the whole message; nothing of it is kept.
// call is the id of the call to which a request belongs, or 0 if that is not known. refused says
// that there was no room for the request.
func (q *Requests) Receive(text []byte, env *jsonrpc.Envelope, call int64, d *jsonrpc.Discarded) (refused bool) {
	var ok bool
	switch {
	case IsRequest(env):
		result := q.accept(text, env, call)
		ok, refused = result != malformed, result == noRoom
	case string(env.Method) == methodCancelled:
		ok = !env.Malformed && q.handleCancelled(env.Params)
	default:
		r := jsonrpc.ReadNotification(text, env)
		if ok = r != nil && CheckParams(env.Params) == nil; ok && q.Handler != nil {
			q.Handler.handleNotification(r)
		}
	}
	if !ok {
		d.Malformed.Add(1)
	}
	return refused
}

// IsRequest reports whether a message is a request. With a null id it counts as a
// notification, as in the go-sdk.
func IsRequest(env *jsonrpc.Envelope) bool {
	return env.Method != nil && env.ID != nil && string(env.ID) != "null"
}

// accept checks a request and starts the goroutine that serves it.
func (q *Requests) accept(line []byte, env *jsonrpc.Envelope, call int64) admission {
	key, ok := idKey(env.ID)
	method, err := jsonscan.ReadString(env.Method)
	if !ok || err != nil || env.Malformed || len(env.ID) > MaxRefusal || !jsonrpc.IsVersion2(line) {
		return malformed // perhaps a JSON log line with the members id and method
	}
	r := &request{key: key, method: strings.Clone(method), size: len(line), call: call}
	refusal := q.attribute(r)
	if refusal == nil {
		refusal = q.checkRequest(r)
	}
	if refusal != nil || method == methodPing {
		r.size = 0 // the parameters are not kept
	}
	// handleCancelled and CancelOfCall cancel the request. The handler also ends with the
	// session; see runHandler.
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = cancel
	if result := q.admit(r); result != admitted {
		cancel(nil)
		return result
	}
	r.id = bytes.Clone(env.ID)
	if r.size > 0 {
		r.params = bytes.Clone(env.Params)
	}
	if !q.Go(func() { defer cancel(nil); q.serve(ctx, r, refusal) }) {
		q.finish(r)()
		cancel(nil)
	}
	return admitted
}

// attribute finds who answers a request, and the call that it belongs to. The error refuses a
// request that may belong to the calls of several answerers. It is called in the order in which
// the server sends, so a call that has its answer does not count.
func (q *Requests) attribute(r *request) error {
	if q.Handler == nil || r.method == methodPing {
		return nil
	}
	handlers, call, ok := q.Calls.AnswererOf(r.call, r.method)
	if !ok {
		return errAmbiguous
	}
	if handlers == nil {
		handlers = q.Handler.Pool.Handlers.Unasked.For(r.method)
	}
	r.by, r.call = q.Handler.legacyAnswerer(handlers), call
	return nil
}

// checkRequest returns why a request is rejected by its method or size; nil if it is served.
func (q *Requests) checkRequest(r *request) error {
	if r.method == methodPing {
		return nil
	}
	if q.Handler == nil {
		return errUnknownMethod
	}
	if err := r.by.checkMethod(r.method); err != nil {
		return err
	}
	switch {
	case r.size > serverRequestMax:
		return errRequestTooLong
	case !q.Calls.CountRequest(r.call):
		return errTooManyOfOneCall
	}
	return nil
}

// admit adds a request to open. Its id must be free, and there must be room.
func (q *Requests) admit(r *request) admission {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[r.key] != nil:
		return malformed
	case !q.Room.Acquire(r.size):
		return noRoom
	}
	if q.open == nil {
		q.open = make(map[string]*request)
	}
	q.open[r.key] = r
	return admitted
}

// finish frees the id of a request, which the server may use again when it has read the
// answer. The room of the request is released by written, after the answer was sent.
func (q *Requests) finish(r *request) (written func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, r.key)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.Room.Release(r.size)
	}
}

// Count returns how many requests are being served or have their answer being written.
func (q *Requests) Count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.Room.Count
}

// Idle reports whether no request is being served: all ids and all room are free.
func (q *Requests) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) == 0 && q.Room == Allowance{Max: q.Room.Max}
}

// serve answers a request with a result, or with the error refusal if that is set. It sends
// no answer to a request that the server has cancelled (MCP, utilities, cancellation).
func (q *Requests) serve(ctx context.Context, r *request, refusal error) {
	text, err := json.RawMessage("{}"), refusal
	if err == nil && r.method != methodPing {
		text, err = q.answer(ctx, r)
	}
	written := q.finish(r)
	defer written()
	if line, ok := ResponseLine(r.id, text, err); ok && !q.isWithdrawn(r) {
		q.Reply(line)
	}
}

// answer has the handler answer a request. It returns at the end of the session even if an
// observer does not: the release of the session waits for the caller, and the observer may wait
// for that release, as Unregister does.
func (q *Requests) answer(ctx context.Context, r *request) (json.RawMessage, error) {
	if q.Handler.Observe == nil {
		return q.Handler.answer(ctx, r, q.Calls)
	}
	type answer struct {
		text json.RawMessage
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: errNoAnswer}
		defer func() { done <- a }() // even if the observer ends its goroutine
		a.text, a.err = q.Handler.answer(ctx, r, q.Calls)
	}()
	select {
	case a := <-done:
		return a.text, a.err
	case <-q.Handler.lifetime.Dead():
		return nil, errNoAnswer
	}
}

// isWithdrawn reports whether the server has cancelled a request.
func (q *Requests) isWithdrawn(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.withdrawn
}

// handleCancelled ends the request that a notifications/cancelled names (MCP, utilities,
// cancellation). It reports whether the notification is valid. An unknown id is valid, because
// the answer may have been sent already.
func (q *Requests) handleCancelled(params []byte) bool {
	key, ok := "", true
	err := jsonscan.EachMember(params, func(name string, value []byte) error {
		if name == "requestId" {
			key, ok = idKey(value)
		}
		return nil
	})
	if err != nil || !ok {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.open[key]; r != nil {
		r.withdrawn = true
		r.cancel(context.Canceled)
	}
	return true
}

// CancelOfCall ends the requests that are known to belong to a failed call. The server gets
// an error as the answer to each, because it may not know that the call has failed.
func (q *Requests) CancelOfCall(call int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.open {
		if r.call == call {
			r.cancel(context.Canceled)
		}
	}
}

// idKey returns the key of an id in open. It is the same for two spellings of one id. ok is
// false if the id is neither a string nor a number.
func idKey(id []byte) (key string, ok bool) {
	switch {
	case len(id) == 0:
		return "", false
	case id[0] == '"':
		text, err := jsonscan.ReadString(id)
		return `"` + text, err == nil
	case id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return "", false
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	return string(id), true
}

// ResponseLine returns a response with the id as the server wrote it. A non-nil err makes it
// an error response. ok is false if the error cannot be written as JSON.
func ResponseLine(id []byte, result json.RawMessage, err error) (line []byte, ok bool) {
	member, text := "result", []byte(result)
	if err != nil {
		var marshalErr error
		if text, marshalErr = json.Marshal(responseError(err)); marshalErr != nil {
			return nil, false
		}
		member = "error"
	}
	line = append(line, `{"jsonrpc":"2.0","id":`...)
	line = append(line, id...)
	line = append(line, `,"`+member+`":`...)
	line = append(line, text...)
	return append(line, '}'), true
}

// responseError returns the error object of a response. An error without a JSON-RPC error in
// its chain becomes errNoAnswer, because it may contain internals of the host.
func responseError(err error) *sdkrpc.Error {
	if rpc, ok := err.(*sdkrpc.Error); ok && rpc != nil {
		return rpc
	}
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) || rpc == nil {
		return errNoAnswer
	}
	return &sdkrpc.Error{Code: rpc.Code, Message: err.Error(), Data: rpc.Data}
}

var (
	errRequestTooLong = &sdkrpc.Error{Code: CodeTooManyRequests,
		Message: "the request is longer than " + strconv.Itoa(serverRequestMax>>20) + " MiB"}
	errTooManyOfOneCall = &sdkrpc.Error{Code: CodeTooManyRequests,
		Message: "more than " + strconv.Itoa(jsonrpc.MaxRequestsPerCall) + " requests in one call"}
)

const (
	// MaxHeldBytes is how many bytes of requests, or of notifications, of one session may
	// wait at a time.
	MaxHeldBytes = 16 << 20
	// MaxRefusal bounds the id of a request in bytes, because the answer repeats it.
	MaxRefusal = 4 << 10
)

// CodeTooManyRequests is from the range of error codes that JSON-RPC 2.0 leaves to
// implementations (section 5.1).
const CodeTooManyRequests = -32000

// Allowance bounds the messages that wait, by their number (Max) and by their size
// (MaxHeldBytes). A single message may have any size. The owner guards it.
type Allowance struct{ Max, Count, bytes int }

// Acquire reserves room for a message of size bytes. It reports false without room.
func (a *Allowance) Acquire(size int) bool {
	if a.Count >= a.Max || a.Count > 0 && a.bytes+size > MaxHeldBytes {
		return false
	}
	a.Count++
	a.bytes += size
	return true
}

// Release gives back the room that Acquire reserved.
func (a *Allowance) Release(size int) {
	a.Count--
	a.bytes -= size
}

// CheckParams returns the error response to a request whose parameters hold too many values
// to be decoded; nil if they may be decoded.
func CheckParams(params []byte) error {
	if len(params) < jsonbound.LargeBytes {
		return nil
	}
	if err := jsonrpc.CheckBounds(params, jsonrpc.RequestBounds); err != nil {
		return errInvalidParams("the parameters hold " + err.Error())
	}
	return nil
}

// errNoAnswer is the error that a server gets if the reason must stay with the host.
var errNoAnswer = &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: "the client has no answer"}

// hiddenError is the error of a handler. The host may see it; the server gets errNoAnswer.
type hiddenError struct{ err error }

func (e *hiddenError) Error() string { return errNoAnswer.Message }

// Unwrap returns the error for the server, because the go-sdk writes what errors.As finds.
func (e *hiddenError) Unwrap() error { return errNoAnswer }

// errNotOffered rejects a request that has no answerer. declared: the capability was declared for calls
// that bring an answerer ([transport.Handlers].Declared).
func errNotOffered(what string, declared bool) error {
	if declared {
		return &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "no client was asked: " + what + " is answered by the caller of a tool, and no call is in flight whose caller answers it"}
	}
	return &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "this client does not offer " + what}
}

// ErrTooMany rejects a request because too many wait.
var ErrTooMany = &sdkrpc.Error{Code: CodeTooManyRequests, Message: "too many requests"}

// errUnknownMethod rejects a method that clients do not have.
var errUnknownMethod = &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "clients do not have this method"}

// IsEcho reports whether err, an error that a server sent, is the error with which the
// client rejects unknown methods: the server writes back what it reads.
func IsEcho(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Message == errUnknownMethod.Message
}

// isNotOffered reports whether err came from errNotOffered or is errUnknownMethod.
func isNotOffered(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Code == sdkrpc.CodeMethodNotFound
}

// errInvalidParams rejects parameters that violate the protocol.
func errInvalidParams(why string) error {
	return &sdkrpc.Error{Code: sdkrpc.CodeInvalidParams, Message: why}
}
