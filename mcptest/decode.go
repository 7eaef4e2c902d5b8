package mcptest

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/rawjson"
)

// The fixture must cost less than the clients that are measured against it, and must
// detect every invalid message. So encoding/json validates a line, and jsonscan then
// finds its members without decoding them.

// decode reads a message. If it fails, the id is set as far as there is one.
func (e *envelope) decode(line []byte) *rpcError {
	if !json.Valid(line) {
		var v any
		return &rpcError{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("cannot read the message: %v", json.Unmarshal(line, &v))}
	}
	if line[0] != '{' {
		return &rpcError{Code: jsonrpc.CodeInvalidRequest, Message: "the message is not an object"}
	}
	var params json.RawMessage
	var failure *rpcError
	_ = jsonscan.EachMember(line, func(key string, value []byte) error {
		switch key {
		case "id":
			e.ID = value
		case "method":
			failure = decodeText("method", value, &e.Method, failure)
		case "params":
			params = value
		case "result":
			e.Result = value
		case "error":
			e.Error = value
		}
		return nil
	})
	if failure != nil {
		failure.Code = jsonrpc.CodeInvalidRequest
		return failure
	}
	return e.Params.decode(params)
}

// decode reads params, which are valid JSON. It leaves p empty if they are absent or
// null.
func (p *params) decode(raw json.RawMessage) *rpcError {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "params is not an object"}
	}
	var failure *rpcError
	_ = jsonscan.EachMember(raw, func(key string, value []byte) error {
		switch key {
		case "name":
			failure = decodeText("name", value, &p.Name, failure)
		case "uri":
			failure = decodeText("uri", value, &p.URI, failure)
		case "cursor":
			failure = decodeText("cursor", value, &p.Cursor, failure)
		case "level":
			failure = decodeText("level", value, &p.Level, failure)
		case "protocolVersion":
			failure = decodeText("protocolVersion", value, &p.Version, failure)
		case "arguments":
			p.Arguments = value
		case "_meta":
			p.Meta = value
		case "requestId":
			p.RequestID = value
		case "notifications":
			p.Notifications = value
		case "inputResponses":
			p.Responses = value
		case "requestState":
			failure = decodeText("requestState", value, &p.State, failure)
		case "task":
			p.Task = value
		case "taskId":
			failure = decodeText("taskId", value, &p.TaskID, failure)
		}
		return nil
	})
	return failure
}

// decodeText reads a member that must be a string. It returns failure unless this
// member fails, too.
func decodeText(key string, value []byte, into *string, failure *rpcError) *rpcError {
	text, ok := rawjson.Text(value)
	if !ok && json.Unmarshal(value, &text) != nil {
		return &rpcError{Code: jsonrpc.CodeInvalidParams, Message: key + " is not a string"}
	}
	*into = text
	return failure
}
