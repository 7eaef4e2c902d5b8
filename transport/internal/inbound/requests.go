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

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// serverRequestMax bounds one request of a server, in bytes. A longer one is
	// refused before it is decoded.
	serverRequestMax = 16 << 20
)

const (
	methodPing      = "ping"
	MethodCancelled = `"notifications/cancelled"` // as it stands in the message
)

// Requests serves what the server of one session asks of this client: ping,
// sampling, elicitation and roots. The go-sdk does not see these requests.
//
// A request is judged by its method and its size before its parameters are
// decoded. Each that is admitted has a goroutine, which answers with the id as
// the server has written it. Safe for concurrent use.
type Requests struct {
	// Handler serves what is more than a ping; nil: it is refused. Set before the
	// first request comes.
	Handler *Handler
	Calls   CallClocks
	// Go runs a goroutine that the release of the session waits for. It
	// reports false if the session is ending.
	Go func(func()) bool
	// Reply writes a response and returns when it has left, or cannot leave.
	Reply func(line []byte)

	mu   sync.Mutex
	Room Allowance
	open map[string]*request // by idKey
}

// CallClocks are the clocks of the calls of one session. call is the id of a call
// of ours; with 0 or less it is not known to which call a request of the server's
// belongs, and each that is in flight counts.
type CallClocks interface {
	// CountRequest counts one request of the server's. It reports false if every
	// call that it may belong to has had requestsPerCall.
	CountRequest(call int64) bool
	// PauseClocks stops the idle clocks while a request is being answered. restart
	// ends that; answered says whether the answer is a result.
	PauseClocks(call int64) (restart func(answered bool))
}

// request is one of them.
type request struct {
	id     []byte // as the server has written it
	key    string
	method string
	params []byte
	size   int
	call   int64
	cancel context.CancelCauseFunc
	// withdrawn: the server does not want the answer. Guarded by the mutex of the
	// set.
	withdrawn bool
}

// AcceptResult is what became of a request at the door.
type AcceptResult uint8

const (
	// Accepted: it is being served, or refused with an answer.
	Accepted AcceptResult = iota
	// MalformedRequest: it is no JSON-RPC request.
	MalformedRequest
	// IDInUse: a request with the same id is being served.
	IDInUse
	// NoRoom: too many requests, or too large ones, are being served.
	NoRoom
)

// IsRequest reports whether a message is a request. One with a null id
// counts as a notification, as with the go-sdk.
func IsRequest(env *jsonrpc.Envelope) bool {
	return env.Method != nil && env.ID != nil && string(env.ID) != "null"
}

// Accept begins to serve a request. line is the whole message; nothing of it is
// kept. call is the id of our request on whose way to an answer it came, where
// that is known.
func (q *Requests) Accept(line []byte, env *jsonrpc.Envelope, call int64) AcceptResult {
	key, ok := idKey(env.ID)
	method, err := jsonscan.ReadString(env.Method)
	if !ok || err != nil || env.Malformed || len(env.ID) > MaxRefusal || !jsonrpc.IsVersion2(line) {
		return MalformedRequest // what servers log has ids, and methods, too
	}
	r := &request{key: key, method: strings.Clone(method), size: len(line), call: call}
	refusal := q.checkRequest(r)
	if refusal != nil || method == methodPing {
		r.size = 0 // nothing of it is kept
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = cancel
	if result := q.admit(r); result != Accepted {
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
	return Accepted
}

// checkRequest says why a request is not served, by its method and size.
func (q *Requests) checkRequest(r *request) error {
	if r.method == methodPing {
		return nil
	}
	if q.Handler == nil {
		return errUnknownMethod
	}
	switch h := &q.Handler.Handlers; r.method {
	case methodRoots:
		if h.Roots == nil {
			return errNotOffered("roots")
		}
	case methodSample:
		if h.Sample == nil {
			return errNotOffered("sampling")
		}
	case methodElicit:
		if h.ElicitForm == nil && h.ElicitURL == nil {
			return errNotOffered("elicitation")
		}
	default:
		return errUnknownMethod
	}
	switch {
	case r.size > serverRequestMax:
		return errRequestTooLong
	case !q.Calls.CountRequest(r.call):
		return errTooManyOfOneCall
	}
	return nil
}

// admit enters a request into the table. Its id must be free, and there must be
// room.
func (q *Requests) admit(r *request) AcceptResult {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[r.key] != nil:
		return IDInUse
	case !q.Room.Acquire(r.size):
		return NoRoom
	}
	if q.open == nil {
		q.open = make(map[string]*request)
	}
	q.open[r.key] = r
	return Accepted
}

// finish makes the id of a request free: the server may use it again when it has
// read the answer. The request counts until the function that is returned is
// called, when the answer has been written.
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

// Count is how many requests are being served, their answers included.
func (q *Requests) Count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.Room.Count
}

// Idle reports whether nothing is being served: every id is free, and all of the room.
func (q *Requests) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) == 0 && q.Room == Allowance{Max: q.Room.Max}
}

// serve answers a request. A request that the server has cancelled gets no
// response (MCP, utilities, cancellation).
func (q *Requests) serve(ctx context.Context, r *request, refusal error) {
	text, err := json.RawMessage("{}"), refusal
	if err == nil && r.method != methodPing {
		text, err = q.Handler.answer(ctx, r, q.Calls)
	}
	written := q.finish(r)
	defer written()
	if line, ok := ResponseLine(r.id, text, err); ok && !q.isWithdrawn(r) {
		q.Reply(line)
	}
}

func (q *Requests) isWithdrawn(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.withdrawn
}

// HandleCancelled takes a notifications/cancelled of the server's. It reports whether
// it is well formed.
func (q *Requests) HandleCancelled(params []byte) bool {
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

// CancelOfCall ends the requests that are known to belong to a call which has failed.
// The server, which rarely knows, gets an error for an answer.
func (q *Requests) CancelOfCall(call int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.open {
		if r.call == call {
			r.cancel(context.Canceled)
		}
	}
}

// idKey is what two spellings of one id have in common. An id is a string or a
// number.
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

// ResponseLine writes a response, with the id as it was read.
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

// responseError is the error object of a response. What is no error of JSON-RPC
// is not shown to the server.
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
