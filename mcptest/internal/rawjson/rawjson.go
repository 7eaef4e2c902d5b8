// Package rawjson builds and reads pieces of JSON text without decoding whole messages.
package rawjson

import "encoding/json"

// Marshal marshals v. It panics only for invalid raw JSON inside v.
func Marshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("mcptest: " + err.Error() + "; check the raw JSON in the script")
	}
	return data
}

// Quote returns text as a JSON string. Text of printable ASCII without escapes is the
// fast path.
func Quote(text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return Marshal(text)
		}
	}
	return append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
}

// Text returns the text of a JSON string that has neither escapes nor characters beyond
// ASCII; ok is false for any other value.
func Text(value []byte) (text string, ok bool) {
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
