// Package message decodes the JSON-RPC messages that clients of a gateway send, and encodes the
// messages, results and errors that they get. It keeps no state; MaxBatch and envelope.MaxDepth bound a
// message.
package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/envelope"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// decode decodes a message, which is valid JSON. Its params or its result share the memory of text.
// (jsonrpc.DecodeMessage would allocate 64 KiB for each message.)
func decode(text []byte) (jsonrpc.Message, error) {
	m, err := envelope.Read(text)
	switch {
	case err != nil:
		return nil, err
	case m.Method == "":
		return decodeAnswer(m.ID, m.Result, m.Error), nil
	}
	r := &jsonrpc.Request{Method: m.Method, Params: m.Params}
	if m.ID != nil {
		r.ID, err = decodeID(m.ID)
	}
	return r, err
}

// decodeAnswer decodes an answer. An answer that fits no question gets no id, and is ignored later.
func decodeAnswer(id, result, failure []byte) *jsonrpc.Response {
	known, err := decodeID(id)
	if err != nil || (result == nil) == (failure == nil) {
		return &jsonrpc.Response{}
	}
	a := &jsonrpc.Response{ID: known, Result: result}
	if failure != nil {
		wire := new(jsonrpc.Error)
		if json.Unmarshal(failure, wire) != nil {
			wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has answered with an error that cannot be read"}
		}
		a.Error = wire
	}
	return a
}

func decodeID(value []byte) (jsonrpc.ID, error) {
	id, err := envelope.ReadID(value)
	if err != nil {
		return jsonrpc.ID{}, err
	}
	if number, ok := id.(int64); ok {
		return jsonrpc.MakeID(float64(number))
	}
	return jsonrpc.MakeID(id)
}

// Encoded is an encoded message in three parts. Body is its result or its params, which are neither
// copied nor checked again.
type Encoded struct {
	Head, Body, Tail []byte
}

// Len returns the length of the message in bytes.
func (m Encoded) Len() int { return len(m.Head) + len(m.Body) + len(m.Tail) }

// Encode encodes an answer, a question or a notification.
func Encode(m jsonrpc.Message) Encoded {
	head := append(make([]byte, 0, 96), `{"jsonrpc":"2.0"`...)
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.ID.IsValid() {
			id, _ := json.Marshal(m.ID.Raw())
			head = append(append(head, `,"id":`...), id...)
		}
		method, _ := json.Marshal(m.Method)
		head = append(append(head, `,"method":`...), method...)
		if len(m.Params) == 0 {
			return Encoded{Head: head, Tail: []byte("}")}
		}
		return Encoded{append(head, `,"params":`...), m.Params, []byte("}")}
	case *jsonrpc.Response:
		id, _ := json.Marshal(m.ID.Raw()) // null if the id of the request could not be read
		head = append(append(head, `,"id":`...), id...)
		if m.Error == nil {
			return Encoded{append(head, `,"result":`...), m.Result, []byte("}")}
		}
		text, err := json.Marshal(m.Error)
		if err != nil {
			text = []byte(`{"code":-32603,"message":"the error cannot be encoded"}`)
		}
		return Encoded{append(head, `,"error":`...), text, []byte("}")}
	}
	return Encoded{}
}

// PieceBytes is how much of a message is written at once. A peer that reads a piece is not considered
// stalled.
const PieceBytes = 64 << 10

// MaxBatch bounds the messages of a batch.
const MaxBatch = 1000

// Read reads a message, or a batch. If a message of the batch cannot be read, the whole batch is
// refused.
func Read(body []byte) (messages []jsonrpc.Message, batch bool, wrong *jsonrpc.Error) {
	messages, refusals := ReadEach(body)
	if len(refusals) > 0 {
		return nil, false, refusals[0].Error.(*jsonrpc.Error)
	}
	return messages, bytes.TrimSpace(body)[0] == '[', nil
}

// ReadEach reads a message, or the readable messages of a batch. Each other message has a refusal
// (JSON-RPC 2.0, section 6) with its id, if that can be read, and a *jsonrpc.Error.
func ReadEach(body []byte) (messages []jsonrpc.Message, refusals []*jsonrpc.Response) {
	if !jsonscan.ValidWithin(body, envelope.MaxDepth) {
		return nil, refuse(&jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("the body is no JSON, or nested deeper than %d levels", envelope.MaxDepth)})
	}
	add := func(text []byte) {
		m, err := decode(text)
		if err == nil {
			messages = append(messages, m)
			return
		}
		refusal := &jsonrpc.Response{Error: InvalidRequest("the body is no message of JSON-RPC 2.0: %s", Shorten(err.Error()))}
		if id := envelope.RequestID(text); id != nil {
			refusal.ID, _ = decodeID(id) // it can be read
		}
		refusals = append(refusals, refusal)
	}
	body = bytes.TrimSpace(body)
	if body[0] != '[' {
		add(body)
		return messages, refusals
	}
	tooMany := false
	jsonscan.EachItem(body, func(item []byte) bool {
		if tooMany = len(messages)+len(refusals) == MaxBatch; !tooMany {
			add(item)
		}
		return !tooMany
	})
	switch {
	case tooMany:
		return nil, refuse(InvalidRequest("the batch has more than %d messages", MaxBatch))
	case len(messages)+len(refusals) == 0:
		return nil, refuse(InvalidRequest("the batch is empty"))
	}
	return messages, refusals
}

// refuse refuses a whole body.
func refuse(e *jsonrpc.Error) []*jsonrpc.Response { return []*jsonrpc.Response{{Error: e}} }

// IDOf returns the id of a request; it is not valid for other messages.
func IDOf(m jsonrpc.Message) jsonrpc.ID {
	if r, ok := m.(*jsonrpc.Request); ok {
		return r.ID
	}
	return jsonrpc.ID{}
}

// InvalidParams returns the error of params that cannot be used.
func InvalidParams(text string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}

// InvalidRequest returns the error of a message that cannot be served as a request.
func InvalidRequest(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Busy returns the error of a peer that has reached a limit.
func Busy(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeBusy, Message: what + "; try again later. Nothing was done."}
}

// CodeBusy is in the range that JSON-RPC leaves to servers.
const CodeBusy = -32029

// MethodNotFound returns the error of an unknown method.
func MethodNotFound(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + Shorten(method)}
}

// maxQuote bounds how much of a text of the peer an error repeats, in bytes.
const maxQuote = 200

// Quote quotes and shortens a text of a peer for an error.
func Quote(text string) string { return strconv.Quote(Shorten(text)) }

// Shorten shortens a text of a peer for an error.
func Shorten(text string) string {
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return text
}

// NotAnAnswer returns the error of an answer to a question that is not an object.
func NotAnAnswer(key string) *jsonrpc.Error {
	return InvalidParams("the member " + Quote(key) + " of inputResponses is not an object")
}

// The errors of questions that a client is not asked, or whose answer does not come.
var (
	ErrNotAsked  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no call of the client is in flight on whose stream it could be asked; no client was asked"}
	ErrCallEnded = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call of the client has ended, or its connection is gone"}
)

// Result encodes a result. With modern it has the resultType that 2026-07-28 requires.
func Result(result any, modern bool) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(result); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the result cannot be encoded: " + err.Error()}
	}
	text := bytes.TrimSpace(b.Bytes())
	if !modern {
		return text, nil
	}
	return WithResultType(text), nil
}

// WithResultType adds the resultType "complete" to a result that has none.
func WithResultType(result json.RawMessage) json.RawMessage {
	const name = "resultType"
	if bytes.Contains(result, []byte(name)) && jsonscan.Member(result, name) != nil {
		return result
	}
	text := bytes.TrimSpace(result)
	if len(text) == 0 || text[0] != '{' {
		return result
	}
	const member = `{"` + name + `":"complete"`
	complete := append(make([]byte, 0, len(member)+len(text)), member...)
	if bytes.TrimSpace(text[1:])[0] != '}' {
		complete = append(complete, ',')
	}
	return append(complete, text[1:]...)
}

// Modern adds the resultType "complete", which 2026-07-28 requires, to a result that is known to have
// none.
func Modern(result []byte) []byte {
	return slices.Concat([]byte(`{"resultType":"complete",`), bytes.TrimPrefix(result, []byte("{")))
}

// Notification returns a notification; it encodes the params.
func Notification(method string, params any) jsonrpc.Message {
	text, err := Result(params, false)
	if err != nil {
		return nil
	}
	return &jsonrpc.Request{Method: method, Params: text}
}
