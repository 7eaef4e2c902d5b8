package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// veil hides secrets in what servers say, for they like to repeat what they
// were given. nil hides nothing.
type veil func(text string) string

func (v veil) text(text string) string {
	if v == nil {
		return text
	}
	return v(text)
}

// part hides secrets in the beginning of a longer text. Its end is left out,
// because that may be the beginning of a secret: what follows the last one that
// was found, or as much as can be a part of one.
func (v veil) part(text string) string {
	if v == nil {
		return text
	}
	hidden := v(text)
	if hidden == text {
		return cutAt(text, max(0, len(text)-secret.PartLength))
	}
	return hidden[:max(0, strings.LastIndex(hidden, secret.Mask))] + secret.Mask
}

// error hides secrets in an error. One that holds none stays what it is.
func (v veil) error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := v.text(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}

// json hides secrets in a JSON value, however its strings are escaped. A value
// that holds none stays as it is, byte for byte.
//
// It works on the text and builds no values, so that its memory is a small
// multiple of the text: one error may be as long as a message.
func (v veil) json(raw json.RawMessage) json.RawMessage {
	if v == nil {
		return raw
	}
	hidden := v.quoted(raw)
	// What is left is in none of its strings: a number, a piece of what is no JSON.
	text := string(hidden)
	if rest := v(text); rest != text {
		if hidden = json.RawMessage(rest); !json.Valid(hidden) {
			return json.RawMessage(`"` + secret.Mask + `"`)
		}
	}
	return hidden
}

// quoted hides secrets in the strings of a JSON value that are written with
// escapes. Others hold a secret as it is, which is found without this.
func (v veil) quoted(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var out []byte // nil: nothing is changed so far
	done := 0      // what of raw is in out
	for at := 0; at < len(raw); {
		if raw[at] != '"' {
			at++
			continue
		}
		s := jsonscan.Scanner{Text: raw, Pos: at}
		text, escaped, ok := s.String()
		if !ok {
			break
		}
		if escaped {
			plain := jsonscan.Unquote(text, true)
			if hidden := v(plain); hidden != plain {
				quoted, _ := json.Marshal(hidden) // a string always marshals
				out = append(append(out, raw[done:at]...), quoted...)
				done = s.Pos
			}
		}
		at = s.Pos
	}
	if out == nil {
		return raw
	}
	return append(out, raw[done:]...)
}
