package schema

import "encoding/json"

// maxBytes bounds what the schemas of one tool say, after references were replaced: the
// texts and values in them, and the names of properties. A short schema that refers to a
// long text many times would fill a request.
const maxBytes = 1 << 20

// The sizes of what is short in JSON. A schema has at least its own; it also bounds how
// many references are followed.
const (
	sizeOfSchema = 50
	sizeOfValue  = 8
)

// take counts a schema without those in it. It returns false if there is no room left, and
// for every schema after that.
func (z *normalizer) take(raw map[string]any) bool {
	z.bytes += sizeOfSchema
	for keyword, v := range raw {
		if z.bytes > maxBytes {
			return false
		}
		switch keywords[keyword] {
		case formSchemaMap:
			named, _ := v.(map[string]any)
			for name := range named {
				z.bytes += len(name)
			}
		case formSchema, formSchemas, formBranch, formNegative, formMeaningless:
		default:
			if keyword != "allOf" {
				z.bytes += len(keyword) + size(v, maxBytes)
			}
		}
	}
	return z.bytes <= maxBytes
}

// size returns about how long a value is in JSON. It stops above limit.
func size(v any, limit int) int {
	n := sizeOfValue
	switch v := v.(type) {
	case string:
		n += len(v)
	case []any:
		for _, e := range v {
			if n > limit {
				break
			}
			n += size(e, limit-n)
		}
	case map[string]any:
		for name, e := range v {
			if n > limit {
				break
			}
			n += len(name) + size(e, limit-n)
		}
	}
	return n
}

// key returns a value that is equal for equal values of JSON.
func key(v any) any {
	switch v.(type) {
	case []any, map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return nil // not reached: v was decoded from JSON
		}
		return jsonKey(text)
	}
	return v
}

// jsonKey is the key of a list or an object. The type keeps it apart from texts.
type jsonKey string
