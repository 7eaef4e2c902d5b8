package headerparams

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Value encodes a text as a header value. Printable ASCII without leading or trailing
// spaces is returned unchanged. Any other text is encoded as "=?base64?…?=" (MCP
// 2026-07-28, Streamable HTTP).
func Value(text string) string {
	plain := text == strings.Trim(text, " ") &&
		!(strings.HasPrefix(text, encodedPrefix) && strings.HasSuffix(text, encodedSuffix))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= 0x20 && text[i] <= 0x7e
	}
	if plain {
		return text
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + encodedSuffix
}

// paramValue returns an argument as text: a string, a boolean, or an integer that every
// JSON reader represents exactly. It reports false for other values, which no header
// repeats.
func paramValue(raw json.RawMessage) (string, bool) {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= maxExactInteger {
			return strconv.FormatInt(int64(v), 10), true
		}
	}
	return "", false
}

// argumentAt returns the value at a path in nested objects; nil if it is missing.
func argumentAt(value json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) != nil {
			return nil
		}
		value = object[name]
	}
	return value
}
