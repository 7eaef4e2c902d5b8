package jsonscan

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Unquote returns the text of a string that [Scanner.String] returned. As in
// encoding/json, invalid UTF-8 and unpaired surrogates become U+FFFD.
func Unquote(quoted []byte, escaped bool) string {
	text := quoted[1 : len(quoted)-1]
	if !utf8.Valid(text) {
		var v string
		_ = json.Unmarshal(quoted, &v) // rare, and encoding/json has the rules
		return v
	}
	if !escaped {
		return string(text)
	}
	plain := unescape(make([]byte, 0, len(text)), text)
	if len(plain) < len(text)/2 {
		return string(plain) // mostly escapes: do not keep memory that is not used
	}
	return stringOf(plain)
}

// UnquoteShared is [Unquote] without a copy where that is possible: the result shares
// the memory of quoted if it is valid UTF-8 without escapes. The caller must not change
// quoted afterwards.
func UnquoteShared(quoted []byte, escaped bool) string {
	text := quoted[1 : len(quoted)-1]
	if escaped || !utf8.Valid(text) {
		return Unquote(quoted, escaped)
	}
	return stringOf(text)
}

// stringOf returns a string in the memory of b, which is never changed afterwards.
func stringOf(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the callers' contract
}

// unescape appends text with its escapes resolved.
func unescape(out, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(out, text...)
		}
		out = append(out, text[:i]...)
		text = text[i:]
		n := 2
		switch c := text[1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			var r rune
			r, n = codePoint(text)
			out = utf8.AppendRune(out, r)
		default: // '"', '\\', '/'
			out = append(out, c)
		}
		text = text[n:]
	}
}

// codePoint reads one \u escape, or two for a surrogate pair.
func codePoint(text []byte) (r rune, n int) {
	r = hex4(text[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(text[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 returns the value of four hexadecimal digits, which were checked before.
func hex4(b []byte) (r rune) {
	for _, c := range b {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}
