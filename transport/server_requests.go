package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

const (
	// serverRequestMax bounds one request of a server, in bytes. A longer one is
	// refused before it is decoded.
	serverRequestMax = 16 << 20
	// requestsPerCall is how many requests of a server are served on behalf of one
	// call. It is what the rounds of a call may hold altogether since 2026-07-28.
	requestsPerCall = roundsMost * requestsMost
)

const (
	methodPing      = "ping"
	methodCancelled = `"notifications/cancelled"` // as it stands in the message
)

// serverRequests serves what the server of one session asks of this client: ping,
// sampling, elicitation and roots. The go-sdk does not see these requests.
//
// A request is judged by its method and its size before its parameters are
// decoded. Each that is admitted has a goroutine, which answers with the id as
// the server has written it. Safe for concurrent use.
type serverRequests struct {
	// answers serves what is more than a ping; nil: it is refused. Set before the
	// first request comes.
	answers *responder
	calls   callClocks
	// start runs a goroutine that the release of the session waits for. It
	// reports false if the session is ending.
	start func(func()) bool
	// reply writes a response and returns when it has left, or cannot leave.
	reply func(line []byte)

	mu   sync.Mutex
	room allowance
	open map[string]*serverRequest // by idKey
}

// callClocks are the clocks of the calls of one session. call is the id of a call
// of ours; with 0 or less it is not known to which call a request of the server's
// belongs, and each that is in flight counts.
type callClocks interface {
	// countServerRequest counts one request of the server's. It reports false if every
	// call that it may belong to has had requestsPerCall.
	countServerRequest(call int64) bool
	// stopClocks stops the idle clocks while a request is being answered. restart
	// ends that; answered says whether the answer is a result.
	stopClocks(call int64) (restart func(answered bool))
}

// serverRequest is one of them.
type serverRequest struct {
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

// admitResult is what became of a request at the door.
type admitResult uint8

const (
	admitted admitResult = iota
	malformedRequest
	idInUse
	noRoom
)

// isServerRequest reports whether a message is a request. One with a null id
// counts as a notification, as with the go-sdk.
func isServerRequest(env *envelope) bool {
	return env.method != nil && env.id != nil && string(env.id) != "null"
}

// take begins to serve a request. line is the whole message; nothing of it is
// kept. call is the id of our request on whose way to an answer it came, where
// that is known.
func (q *serverRequests) take(line []byte, env *envelope, call int64) admitResult {
	key, ok := idKey(env.id)
	method, err := jsonscan.ReadString(env.method)
	if !ok || err != nil || env.malformed || len(env.id) > refusalMax || !isVersion2(line) {
		return malformedRequest // what servers log has ids, and methods, too
	}
	r := &serverRequest{key: key, method: strings.Clone(method), size: len(line), call: call}
	refusal := q.refuse(r)
	if refusal != nil || method == methodPing {
		r.size = 0 // nothing of it is kept
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = cancel
	if result := q.admit(r); result != admitted {
		cancel(nil)
		return result
	}
	r.id = bytes.Clone(env.id)
	if r.size > 0 {
		r.params = bytes.Clone(env.params)
	}
	if !q.start(func() { defer cancel(nil); q.serve(ctx, r, refusal) }) {
		q.finish(r)()
		cancel(nil)
	}
	return admitted
}

// refuse says why a request is not served, by its method and size.
func (q *serverRequests) refuse(r *serverRequest) error {
	if r.method == methodPing {
		return nil
	}
	if q.answers == nil {
		return errNotForClients
	}
	switch h := &q.answers.handlers; r.method {
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
		return errNotForClients
	}
	switch {
	case r.size > serverRequestMax:
		return errRequestTooLong
	case !q.calls.countServerRequest(r.call):
		return errTooManyOfOneCall
	}
	return nil
}

// admit enters a request into the table. Its id must be free, and there must be
// room.
func (q *serverRequests) admit(r *serverRequest) admitResult {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[r.key] != nil:
		return idInUse
	case !q.room.take(r.size):
		return noRoom
	}
	if q.open == nil {
		q.open = make(map[string]*serverRequest)
	}
	q.open[r.key] = r
	return admitted
}

// finish makes the id of a request free: the server may use it again when it has
// read the answer. The request counts until the function that is returned is
// called, when the answer has been written.
func (q *serverRequests) finish(r *serverRequest) (written func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, r.key)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.room.giveBack(r.size)
	}
}

// serve answers a request. A request that the server has cancelled gets no
// response (MCP, utilities, cancellation).
func (q *serverRequests) serve(ctx context.Context, r *serverRequest, refusal error) {
	text, err := json.RawMessage("{}"), refusal
	if err == nil && r.method != methodPing {
		text, err = q.answers.answer(ctx, r, q.calls)
	}
	written := q.finish(r)
	defer written()
	if line, ok := responseLine(r.id, text, err); ok && !q.isWithdrawn(r) {
		q.reply(line)
	}
}

func (q *serverRequests) isWithdrawn(r *serverRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.withdrawn
}

// cancelled takes a notifications/cancelled of the server's. It reports whether
// it is well formed.
func (q *serverRequests) cancelled(params []byte) bool {
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

// endOf ends the requests that are known to belong to a call which has failed.
// The server, which rarely knows, gets an error for an answer.
func (q *serverRequests) endOf(call int64) {
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

// responseLine writes a response, with the id as it was read.
func responseLine(id []byte, result json.RawMessage, err error) (line []byte, ok bool) {
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
// is none of the server's business.
func responseError(err error) *jsonrpc.Error {
	if rpc, ok := err.(*jsonrpc.Error); ok && rpc != nil {
		return rpc
	}
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc == nil {
		return errNoAnswer
	}
	return &jsonrpc.Error{Code: rpc.Code, Message: err.Error(), Data: rpc.Data}
}

var (
	errRequestTooLong = &jsonrpc.Error{Code: codeTooManyRequests,
		Message: "the request is longer than " + strconv.Itoa(serverRequestMax>>20) + " MiB"}
	errTooManyOfOneCall = &jsonrpc.Error{Code: codeTooManyRequests,
		Message: "more than " + strconv.Itoa(requestsPerCall) + " requests in one call"}
)
