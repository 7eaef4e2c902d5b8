package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// decodeMessage decodes a message, which is valid JSON. The params, or the result, share its memory.
// (jsonrpc.DecodeMessage takes 64 KiB a message.)
func decodeMessage(text []byte) (jsonrpc.Message, error) {
	var id, method, params, version, result, failure []byte
	err := jsonscan.EachMember(text, func(key string, value []byte) error {
		var member *[]byte
		switch key {
		case "jsonrpc":
			member = &version
		case "id":
			member = &id
		case "method":
			member = &method
		case "params":
			member = &params
		case "result":
			member = &result
		case "error":
			member = &failure
		default:
			return nil
		}
		if *member != nil {
			return fmt.Errorf("%s is there twice", key)
		}
		*member = value
		return nil
	})
	switch {
	case errors.Is(err, jsonscan.ErrNotObject):
		return nil, errors.New("it must be an object")
	case err != nil:
		return nil, err
	case string(version) != `"2.0"`:
		return nil, errors.New("jsonrpc must be \"2.0\"")
	case method == nil && id == nil:
		return nil, errors.New("it has neither a method nor an id")
	case method == nil:
		return decodeAnswer(id, result, failure), nil
	case method[0] != '"':
		return nil, errors.New("the method must be a text")
	}
	r := &jsonrpc.Request{Params: params}
	name, _ := jsonscan.ReadString(method)
	r.Method = strings.Clone(name)
	if id != nil {
		r.ID, err = decodeID(id)
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

// maxID is the largest number that an id may be: larger ones are not exact everywhere.
const maxID = 1<<53 - 1

func decodeID(value []byte) (jsonrpc.ID, error) {
	if value[0] == '"' {
		text, _ := jsonscan.ReadString(value)
		return jsonrpc.MakeID(strings.Clone(text))
	}
	number, err := jsonscan.ReadNumber(value)
	if err != nil || value[0] == 'n' || number != float64(int64(number)) || number > maxID || number < -maxID {
		return jsonrpc.ID{}, errors.New("the id must be a text or a whole number")
	}
	return jsonrpc.MakeID(number)
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
