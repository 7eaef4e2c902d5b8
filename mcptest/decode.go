package mcptest

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// envelope holds the members of a client's message of any kind.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// params holds all members of params that the server reads.
type params struct {
	Name          string          `json:"name"`
	URI           string          `json:"uri"`
	Cursor        string          `json:"cursor"`
	Level         string          `json:"level"`
	Version       string          `json:"protocolVersion"`
	Arguments     json.RawMessage `json:"arguments"`
	Meta          json.RawMessage `json:"_meta"`
	RequestID     json.RawMessage `json:"requestId"`
	Notifications json.RawMessage `json:"notifications"`
	Responses     json.RawMessage `json:"inputResponses"`
	State         string          `json:"requestState"`
	Task          json.RawMessage `json:"task"`
	TaskID        string          `json:"taskId"`
}

// decode reads a message. If it fails, the id is set as far as there is one.
func (e *envelope) decode(line []byte) *jsonrpc.Error {
	err := json.Unmarshal(line, e)
	mistyped := new(json.UnmarshalTypeError)
	switch {
	case err == nil && line[0] == '{':
		return nil
	case err != nil && !errors.As(err, &mistyped):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "cannot read the message: " + err.Error()}
	case mistyped.Field == "": // also null
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message is not an object"}
	case mistyped.Field == "method":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method is not a string"}
	case mistyped.Field == "params":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params is not an object"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: strings.TrimPrefix(mistyped.Field, "params.") + " is not a string"}
}
