package mcptest

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The fixture must cost less than the clients that are measured against it,
// and must not let a client get away with bad JSON. So a line is checked by
// encoding/json, and what is known to be valid is then cut up by hand.

// decode reads a message. On an error the id is set if there was one.
func (e *envelope) decode(line []byte) *rpcError {
	if !json.Valid(line) {
		var v any
		return &rpcError{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("cannot read the message: %v", json.Unmarshal(line, &v))}
	}
	if line[0] != '{' {
		return &rpcError{Code: jsonrpc.CodeInvalidRequest, Message: "the message is no object"}
	}
	var params json.RawMessage
	var failure *rpcError
	eachMember(line, func(key, value []byte) {
		switch string(key) {
		case "id":
			e.ID = value
		case "method":
			failure = texts("method", value, &e.Method, failure)
		case "params":
			params = value
		case "result":
			e.Result = value
		case "error":
			e.Error = value
		}
	})
	if failure != nil {
		failure.Code = jsonrpc.CodeInvalidRequest
		return failure
	}
	return e.Params.decode(params)
}

// decode reads valid JSON; none at all is no params.
func (p *params) decode(raw json.RawMessage) *rpcError {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "params is no object"}
	}
	var failure *rpcError
	eachMember(raw, func(key, value []byte) {
		switch string(key) {
		case "name":
			failure = texts("name", value, &p.Name, failure)
		case "uri":
			failure = texts("uri", value, &p.URI, failure)
		case "cursor":
			failure = texts("cursor", value, &p.Cursor, failure)
		case "level":
			failure = texts("level", value, &p.Level, failure)
		case "protocolVersion":
			failure = texts("protocolVersion", value, &p.Version, failure)
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
			failure = texts("requestState", value, &p.State, failure)
		}
	})
	return failure
}

// texts reads a member that must be text; it keeps a failure that it is given.
func texts(key string, value []byte, into *string, failure *rpcError) *rpcError {
	text, ok := plainText(value)
	if !ok && json.Unmarshal(value, &text) != nil {
		return &rpcError{Code: jsonrpc.CodeInvalidParams, Message: key + " is no text"}
	}
	*into = text
	return failure
}

// plainText is the text of a JSON string in which nothing is escaped and
// nothing is beyond ASCII.
func plainText(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			return "", false
		}
	}
	return string(inner), true
}

// eachMember calls do for every member of a valid JSON object. Keys are as
// written: one with an escape in it is none of ours.
func eachMember(object []byte, do func(key, value []byte)) {
	rest := skip(object[1:])
	for len(rest) > 0 && rest[0] == '"' {
		n := valueLen(rest)
		key := rest[1 : n-1]
		rest = skip(rest[n:])
		n = valueLen(rest)
		do(key, rest[:n:n])
		rest = skip(rest[n:])
	}
}

// skip drops white space and the signs between members.
func skip(json []byte) []byte {
	for i, c := range json {
		switch c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return json[i:]
		}
	}
	return nil
}

// valueLen is the length of the value that valid JSON begins with.
func valueLen(json []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
			continue
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth == 0 {
				return i
			}
			depth--
		case depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return i
		default:
			continue
		}
		if depth == 0 && !quoted {
			return i + 1
		}
	}
	return len(json)
}
