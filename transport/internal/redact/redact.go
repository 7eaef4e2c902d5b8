// Package redact replaces secrets in text that servers send.
//
// Servers repeat what they were given: "invalid key sk-…" on stderr, a token in an
// error message, a password in a URL. The host shows such text, logs it and passes it to
// models. A [Redactor] replaces the secrets that one server was given before the host
// gets the text.
package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// Redactor replaces every secret in a text by [secret.Mask]. A nil Redactor
// changes nothing. Safe for concurrent use.
type Redactor func(text string) string

// New returns a Redactor for the secrets of a list; nil if the list is empty.
func New(secrets *secret.List) Redactor {
	if secrets.Empty() {
		return nil
	}
	return secrets.Replacer().Replace
}

// Text returns text without secrets.
func (r Redactor) Text(text string) string {
	if r == nil {
		return text
	}
	return r(text)
}

// Prefix redacts the beginning of a longer text. That beginning may end in the middle of
// a secret, which Text could not recognize. So Prefix drops everything after the last
// secret that it found. If it found none, it drops secret.PartLength bytes at the end.
func (r Redactor) Prefix(text string) string {
	if r == nil {
		return text
	}
	redacted := r(text)
	if redacted == text {
		return display.Prefix(text, max(0, len(text)-secret.PartLength))
	}
	return redacted[:max(0, strings.LastIndex(redacted, secret.Mask))] + secret.Mask
}

// Error returns err itself if its text contains no secret. Otherwise it returns a new
// error with the redacted text. The new error wraps nothing, because the wrapped errors
// contain the secret, too.
func (r Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if redacted := r.Text(text); redacted != text {
		return errors.New(redacted)
	}
	return err
}

// JSON redacts a JSON value, however its strings are escaped. A value without a
// secret is returned as it is, byte for byte.
//
// JSON works on the text and builds no values, so it allocates a small multiple of the
// text. This matters because an error can be as long as a message.
func (r Redactor) JSON(raw json.RawMessage) json.RawMessage {
	if r == nil {
		return raw
	}
	redacted := r.escapedStrings(raw)
	if !r.found(redacted) {
		return redacted
	}
	if rest := json.RawMessage(r(string(redacted))); json.Valid(rest) {
		return rest
	}
	// A secret is outside of strings: in a number, or in text that is not JSON.
	if rest := r.numbers(redacted); json.Valid(rest) && !r.found(rest) {
		return rest
	}
	return json.RawMessage(`"` + secret.Mask + `"`)
}

// searchBytes is how much of a text is searched at once. r makes two copies of what it gets.
const searchBytes = 256 << 10

// found reports whether a text holds a secret. Each secret, or a part of it, is in one of the pieces that
// are searched, because they overlap.
func (r Redactor) found(text []byte) bool {
	for at := 0; ; at += searchBytes {
		piece := string(text[at:min(at+searchBytes+secret.PartLength, len(text))])
		if r(piece) != piece {
			return true
		}
		if at+searchBytes >= len(text) {
			return false
		}
	}
}

// numbers redacts the numbers and strings of a JSON value one by one: a number that holds a secret
// becomes a string.
func (r Redactor) numbers(raw json.RawMessage) json.RawMessage {
	var out []byte
	for at := 0; at < len(raw); {
		end := at + 1
		switch c := raw[at]; {
		case c == '"':
			s := jsonscan.Scanner{Text: raw, Pos: at}
			if _, _, ok := s.String(); !ok {
				return nil
			}
			end = s.Pos
			out = append(out, r(string(raw[at:end]))...)
		case c == '-' || c >= '0' && c <= '9':
			for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
				end++
			}
			if number := string(raw[at:end]); r(number) != number {
				out = append(out, `"`+secret.Mask+`"`...)
			} else {
				out = append(out, number...)
			}
		default:
			out = append(out, c)
		}
		at = end
	}
	return out
}

// escapedStrings redacts the strings of a JSON value that contain escapes. A string
// without escapes contains a secret verbatim, and JSON finds it by searching the text.
func (r Redactor) escapedStrings(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var out []byte // nil while nothing has changed
	done := 0      // raw[:done] is in out
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
			if len(plain) < secret.MinLength { // it holds no secret, and r allocates
			} else if redacted := r(plain); redacted != plain {
				quoted, _ := json.Marshal(redacted) // a string always marshals
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
