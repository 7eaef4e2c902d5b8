package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// message is one JSON-RPC message: a request with id and method, a notification with method, or
// an answer with id. Its fields share the memory of line.
type message struct {
	line   []byte // with the newline
	id     []byte // the text of the id; nil without one
	method string
	params []byte
	result []byte
	modern bool // set where params are not kept
}

// The codes of JSON-RPC that the bridge answers with.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeInternalError  = -32603
)

var errNotMessage = errors.New("it is neither an object nor an array of objects")

// parse reads the messages of one line: one, or those of a batch.
func parse(line []byte) ([]message, error) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 || !jsonscan.Valid(text) {
		return nil, errors.New("it is not JSON")
	}
	if text[0] != '[' {
		m, err := parseObject(text)
		return []message{m}, err
	}
	var all []message
	var failed error
	jsonscan.EachItem(text, func(item []byte) bool {
		var m message
		if m, failed = parseObject(item); failed == nil {
			all = append(all, m)
		}
		return failed == nil
	})
	return all, failed
}

func parseObject(text []byte) (message, error) {
	// The newlines of a batch, and of a message that is indented, are no ends of lines. The parts
	// are those of the copy, so that a message of a batch does not keep the others.
	m := message{line: append(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")), '\n')}
	err := jsonscan.EachMember(m.line, func(key string, value []byte) (err error) {
		switch key {
		case "id":
			m.id = value
		case "method":
			m.method, err = jsonscan.ReadString(value)
		case "params":
			m.params = value
		case "result":
			m.result = value
		}
		return err
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		return m, errNotMessage
	}
	if err != nil {
		return m, err
	}
	if m.id == nil && m.method == "" {
		return m, errors.New("it has neither an id nor a method")
	}
	m.method = strings.Clone(m.method)
	return m, nil
}

// withID returns the line with another id.
func (m *message) withID(id []byte) []byte {
	var out []byte
	_ = jsonscan.EachMember(m.line, func(key string, value []byte) error { // it was read before
		if key == "id" {
			value = id
		}
		name, _ := json.Marshal(key) // a string always marshals
		out = append(append(append(append(out, ','), name...), ':'), value...)
		return nil
	})
	out[0] = '{'
	return append(out, '}', '\n')
}

// canceledID returns the text of the id that notifications/cancelled names.
func canceledID(params []byte) (id string, ok bool) {
	_ = jsonscan.EachMember(params, func(key string, value []byte) error {
		if key == "requestId" {
			id, ok = string(value), true
		}
		return nil
	})
	return id, ok
}

// cancelLine is notifications/cancelled about a request of the id.
func cancelLine(id, reason string) []byte {
	text, _ := json.Marshal(reason) // a string always marshals
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%s}}`+"\n", id, text)
}

// isModern reports whether a request is of 2026-07-28 or later: it names its version itself.
func isModern(params []byte) (modern bool) {
	_ = jsonscan.EachMember(params, func(key string, value []byte) error {
		if key != "_meta" {
			return nil
		}
		return jsonscan.EachMember(value, func(key string, _ []byte) error {
			modern = modern || key == "io.modelcontextprotocol/protocolVersion"
			return nil
		})
	})
	return modern
}

// repeatable reports whether a request may be sent again after it was sent: it only reads, or
// stands for the session.
func repeatable(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list",
		"resources/read", "prompts/get", "completion/complete", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"subscriptions/listen", "tasks/get", "tasks/list", "tasks/result":
		return true
	}
	return false
}

// refuse answers with a JSON-RPC error: a request, or a line that cannot be read, which has no id.
func (b *bridge) refuse(id []byte, code int, text string) {
	if id == nil {
		id = []byte("null")
	}
	quoted, _ := json.Marshal(text) // a string always marshals
	b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, quoted))
}

// giveUp answers a request that gets no answer from a connection. sent: it may have been
// executed.
func (b *bridge) giveUp(r *request, why error, sent bool) {
	outcome, reason := mcpvisor.OutcomeNotSent, why.Error()
	if sent {
		outcome = mcpvisor.OutcomeUnknown
		reason += ". It may have been executed, so do not repeat it blindly."
	}
	if r.method != "tools/call" {
		text, _ := json.Marshal(reason) // a string always marshals
		b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":{"outcome":%q}}}`+"\n", r.id, codeInternalError, text, outcome))
		return
	}
	failure := facade.ModelError{Code: string(mcpvisor.KindCrashed), Message: "Internal Error: " + reason}
	if !sent {
		failure.Code, failure.Retryable = string(mcpvisor.KindUnavailable), true
		failure.Message += ". Nothing was sent, so it is safe to repeat."
	}
	result := map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": failure.Message}}, "structuredContent": failure}
	if r.modern || isModern(r.params) {
		result["resultType"] = "complete"
	}
	text, _ := json.Marshal(result) // these types always marshal
	b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.id, text))
}
