package secret

import "encoding/json"

// MaskJSON returns a value as JSON that mask has changed, or {} if that is no longer JSON. A value that is no JSON stays as it
// is.
func MaskJSON(mask func(string) string, value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		return value // the answer as a whole fails, too
	}
	if data = []byte(mask(string(data))); !json.Valid(data) {
		return struct{}{}
	}
	return json.RawMessage(data)
}
