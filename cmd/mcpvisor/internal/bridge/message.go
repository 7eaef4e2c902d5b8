package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/envelope"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// message is one JSON-RPC message: a request with id and method, a notification with method, or
// an answer with id. Its fields share the memory of line.
type message struct {
	line   []byte // with the newline
	id     []byte // the text of the id; nil without one
	key    string // envelope.Key of id: the other end may write the same id in another way
	method string
	params []byte
	result []byte
	modern bool // isModern(params); set when params are dropped
}

// The error codes of JSON-RPC that the bridge uses.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeInternalError  = -32603
)

// refusal is the error for what is not a message.
type refusal struct {
	id   []byte // nil: none that can be read
	code int
	why  error
}

// maxRefusals bounds the refusals of one batch. Further messages that cannot be read are ignored.
const maxRefusals = 1000

// parse reads the message of a line, or the readable messages of a batch. Each other message has a refusal
// (JSON-RPC 2.0, section 6).
func parse(line []byte) (messages []message, refusals []refusal) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 || !jsonscan.ValidWithin(text, envelope.MaxDepth) {
		return nil, []refusal{{code: codeParseError, why: fmt.Errorf("it is not JSON, or nested deeper than %d levels", envelope.MaxDepth)}}
	}
	add := func(text []byte) {
		switch m, err := parseObject(text); {
		case err == nil:
			messages = append(messages, m)
		case len(refusals) < maxRefusals:
			refusals = append(refusals, refusal{envelope.RequestID(text), codeInvalidRequest, err})
		}
	}
	if text[0] != '[' {
		add(text)
		return messages, refusals
	}
	jsonscan.EachItem(text, func(item []byte) bool {
		add(item)
		return true
	})
	if len(messages)+len(refusals) == 0 {
		refusals = []refusal{{code: codeInvalidRequest, why: errors.New("the batch is empty")}}
	}
	return messages, refusals
}

func parseObject(text []byte) (message, error) {
	// Newlines within a message become spaces. The message shares the memory of this copy: so it does not
	// keep the other messages of its batch in memory.
	line := append(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")), '\n')
	m, err := envelope.Read(line)
	return message{line: line, id: m.ID, key: envelope.Key(m.ID), method: m.Method, params: m.Params, result: m.Result}, err
}

// withCursor returns the line of a request for the first page of a list as one for another page.
func withCursor(line, cursor []byte) []byte {
	var params jsonscan.Object
	params.Add("cursor", cursor)
	first := jsonscan.Member(line, "params")
	_ = jsonscan.EachMember(first, func(key string, value []byte) error {
		params.Add(key, value)
		return nil
	})
	if first != nil {
		return jsonscan.ReplaceMember(line, "params", params.Close())
	}
	whole := jsonscan.OpenObject(bytes.Clone(line))
	whole.Add("params", params.Close())
	return append(whole.Close(), '\n')
}

func (m *message) withID(id []byte) []byte { return jsonscan.ReplaceMember(m.line, "id", id) }

// canceledKey returns the key of the id that notifications/cancelled names; empty without one.
func canceledKey(params []byte) string { return envelope.Key(jsonscan.Member(params, "requestId")) }

// cancelLine returns notifications/cancelled for the request with that id.
func cancelLine(id []byte, reason string) []byte {
	text, _ := json.Marshal(reason) // a string always marshals
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%s}}`+"\n", id, text)
}

// isModern reports whether a request is of 2026-07-28 or later: then its _meta names the version.
func isModern(params []byte) bool {
	return jsonscan.Member(jsonscan.Member(params, "_meta"), "io.modelcontextprotocol/protocolVersion") != nil
}

// repeatable reports whether a request may be sent twice: it only reads, or sets a state of the session.
func repeatable(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "tools/list", "resources/list", "resources/templates/list", "prompts/list",
		"resources/read", "prompts/get", "completion/complete", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"subscriptions/listen", "tasks/get", "tasks/list", "tasks/result":
		return true
	}
	return false
}

// lasts reports whether a request may be in flight over any number of connections.
func lasts(method string) bool {
	return method == "initialize" || method == "subscriptions/listen" || method == "tasks/result"
}

// refuse answers a request, or a line that cannot be read, with a JSON-RPC error. The id of a line is nil.
func (b *bridge) refuse(id []byte, code int, text string) {
	if id == nil {
		id = []byte("null")
	}
	quoted, _ := json.Marshal(text) // a string always marshals
	b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", id, code, quoted))
}

func (b *bridge) refuseEach(refusals []refusal) {
	for _, r := range refusals {
		b.refuse(r.id, r.code, "this is not a JSON-RPC message: "+r.why.Error())
	}
}

// giveUp answers a request that gets no answer from a connection. sent says that it may have been
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
	failure := facade.ModelError{Code: string(mcpvisor.ErrEnded), Message: "Internal Error: " + reason}
	if !sent {
		failure.Code, failure.Retryable = string(mcpvisor.ErrUnavailable), true
		failure.Message += ". Nothing was sent, so it is safe to repeat."
	}
	result := map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": failure.Message}}, "structuredContent": failure}
	if r.modern || isModern(r.params) {
		result["resultType"] = "complete"
	}
	text, _ := json.Marshal(result) // these types always marshal
	b.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.id, text))
}
