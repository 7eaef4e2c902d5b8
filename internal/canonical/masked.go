package canonical

import (
	"bytes"
	"encoding/json"
)

// Masked returns the canonical form of a JSON text without secrets. If a mask is inside a number, it is no longer JSON, and
// becomes a text.
func Masked(mask func(string) string, text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	form := Append(nil, text)
	if bytes.Contains(bytes.ToLower(form), []byte(`\ud`)) { // half a surrogate pair: such a text keeps all its escapes, which hide secrets
		var value any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&value) == nil {
			form, _ = json.Marshal(value) // it was decoded
		}
	}
	masked := []byte(mask(string(form)))
	if !json.Valid(masked) {
		masked, _ = json.Marshal(string(masked)) // a string always marshals
	}
	return masked
}
