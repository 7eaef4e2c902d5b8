package message

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
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

// ReplaceMember replaces the value of a member in a valid JSON object that has it. All other bytes are
// kept.
func ReplaceMember(object json.RawMessage, name string, value []byte) json.RawMessage {
	var b []byte
	copied := 0
	s := jsonscan.Scanner{Text: object}
	s.SkipSpace()
	s.Consume('{')
	for s.SkipSpace(); !s.Consume('}'); s.SkipSpace() {
		quoted, escaped, _ := s.MemberName()
		s.SkipSpace()
		begin := s.Pos
		if _, ok := s.Value(); !ok {
			return nil // the object is valid, so this does not happen
		}
		if jsonscan.UnquoteShared(quoted, escaped) == name {
			b = append(append(b, object[copied:begin]...), value...)
			copied = s.Pos
		}
		s.SkipSpace()
		s.Consume(',')
	}
	return slices.Concat(b, object[copied:])
}

// Object is the text of a JSON object that is being made.
type Object struct{ text []byte }

// OpenObject continues a complete object. It reuses the memory of made.
func OpenObject(made json.RawMessage) Object { return Object{made[:len(made)-1]} }

// Add appends a member.
func (o *Object) Add(name string, value []byte) {
	if len(o.text) == 0 {
		o.text = append(o.text, '{')
	} else {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, JSON(name)...), ':'), value...)
}

// AddAll appends the members of another object.
func (o *Object) AddAll(other Object) {
	if len(other.text) > 0 {
		o.text = append(append(o.text, ','), other.text[1:]...)
	}
}

// Close returns the complete object.
func (o *Object) Close() json.RawMessage {
	if len(o.text) == 0 {
		return json.RawMessage("{}")
	}
	return append(o.text, '}')
}

// JSON returns a text as a JSON string.
func JSON(text string) []byte {
	b, _ := json.Marshal(text) // a string always marshals
	return b
}

// Notification returns a notification; it encodes the params.
func Notification(method string, params any) jsonrpc.Message {
	text, err := Result(params, false)
	if err != nil {
		return nil
	}
	return &jsonrpc.Request{Method: method, Params: text}
}
