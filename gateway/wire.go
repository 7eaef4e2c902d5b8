package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// encodedMessage is a message of JSON-RPC in three parts. The second is the result or the params:
// they are not copied, and not checked again.
type encodedMessage struct {
	head, body, tail []byte
}

func (m encodedMessage) len() int { return len(m.head) + len(m.body) + len(m.tail) }

// encodeMessage encodes an answer or a notification.
func encodeMessage(m jsonrpc.Message) encodedMessage {
	head := append(make([]byte, 0, 96), `{"jsonrpc":"2.0"`...)
	switch m := m.(type) {
	case *jsonrpc.Request:
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
