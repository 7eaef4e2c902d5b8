package message

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Result encodes a result. Since 2026-07-28 it says that it is complete.
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

// WithResultType returns a result that says that it is complete, unless it says something itself.
func WithResultType(result json.RawMessage) json.RawMessage {
	const name = "resultType"
	if bytes.Contains(result, []byte(name)) && hasMember(result, name) {
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

func hasMember(object []byte, name string) (found bool) {
	_ = jsonscan.EachMember(object, func(key string, _ []byte) error {
		found = found || key == name
		return nil
	})
	return found
}

// Modern says that a result is complete, as is due since 2026-07-28.
func Modern(result []byte) []byte {
	return slices.Concat([]byte(`{"resultType":"complete",`), bytes.TrimPrefix(result, []byte("{")))
}

// ReplaceMember returns a valid JSON object with another value of a member, which it has. Everything else
// keeps its bytes.
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

// OpenObject continues an object, which it changes.
func OpenObject(made json.RawMessage) Object { return Object{made[:len(made)-1]} }

// Add appends a member.
func (b *Object) Add(name string, value []byte) {
	if len(b.text) == 0 {
		b.text = append(b.text, '{')
	} else {
		b.text = append(b.text, ',')
	}
	b.text = append(append(append(b.text, JSON(name)...), ':'), value...)
}

// AddAll adds the members of another one.
func (b *Object) AddAll(other Object) {
	if len(other.text) > 0 {
		b.text = append(append(b.text, ','), other.text[1:]...)
	}
}

// Close returns the whole object.
func (b *Object) Close() json.RawMessage {
	if len(b.text) == 0 {
		return json.RawMessage("{}")
	}
	return append(b.text, '}')
}

// JSON is a text as JSON.
func JSON(text string) []byte {
	b, _ := json.Marshal(text) // a string always marshals
	return b
}

// Notification is a notification with params, which are encoded.
func Notification(method string, params any) jsonrpc.Message {
	text, err := Result(params, false)
	if err != nil {
		return nil
	}
	return &jsonrpc.Request{Method: method, Params: text}
}
