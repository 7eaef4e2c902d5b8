package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/envelope"
)

// decodeMessage decodes a message, which is valid JSON. The params, or the result, share its memory.
// (jsonrpc.DecodeMessage takes 64 KiB a message.)
func decodeMessage(text []byte) (jsonrpc.Message, error) {
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

// decodeAnswer decodes an answer. One that cannot be an answer to a question has no id, and is ignored.
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

// encodedMessage is a message of JSON-RPC in three parts. The second is the result or the params:
// they are not copied, and not checked again.
type encodedMessage struct {
	head, body, tail []byte
}

func (m encodedMessage) len() int { return len(m.head) + len(m.body) + len(m.tail) }

// encodeMessage encodes an answer, a question or a notification.
func encodeMessage(m jsonrpc.Message) encodedMessage {
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
			return encodedMessage{head: head, tail: []byte("}")}
		}
		return encodedMessage{append(head, `,"params":`...), m.Params, []byte("}")}
	case *jsonrpc.Response:
		id, _ := json.Marshal(m.ID.Raw()) // null if the request had none that can be read
		head = append(append(head, `,"id":`...), id...)
		if m.Error == nil {
			return encodedMessage{append(head, `,"result":`...), m.Result, []byte("}")}
		}
		text, err := json.Marshal(m.Error)
		if err != nil {
			text = []byte(`{"code":-32603,"message":"the error cannot be encoded"}`)
		}
		return encodedMessage{append(head, `,"error":`...), text, []byte("}")}
	}
	return encodedMessage{}
}

// oneLine returns JSON without line ends, which stand between values only.
func oneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	line := bytes.Clone(text)
	for i, b := range line {
		if b == '\n' || b == '\r' {
			line[i] = ' '
		}
	}
	return line
}
