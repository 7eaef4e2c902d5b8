package facade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// maxArgumentDepth is how deep arguments may be nested. The message around them adds
// two levels, and few JSON readers accept more than 10,000.
const maxArgumentDepth = 9000

// What is wrong with the arguments of a call. [argumentsReason] words it for models.
var (
	errArgumentsNotObject = errors.New("the arguments are not a JSON object; pass a struct, a map with string keys, or raw JSON of an object")
	errArgumentsNotJSON   = fmt.Errorf("the arguments are not valid JSON, or nested deeper than %d levels", maxArgumentDepth)
)

// toolArguments are the arguments of a tool call: a value to encode or, if that is nil,
// the JSON of an object.
type toolArguments struct {
	value any
	raw   json.RawMessage
}

// append appends the arguments as a JSON object; none give an empty object. The error is
// of KindInvalid.
func (a toolArguments) append(b []byte) ([]byte, error) {
	switch v := a.value.(type) {
	case nil:
	case json.RawMessage:
		a.raw = v
	case []byte:
		a.raw = v
	case map[string]any:
		if isPlain(v, maxPlainDepth) {
			if b, err := fastjson.Append(b, v, fastjson.EscapeHTML|fastjson.SortMapKeys); err == nil {
				return b, nil
			}
		}
		return appendMarshalled(b, v)
	default:
		return appendMarshalled(b, v)
	}
	raw, err := checkArguments(a.raw)
	if err != nil {
		return nil, err
	}
	return append(b, raw...), nil
}

// appendMarshalled appends arguments as encoding/json encodes them.
func appendMarshalled(b []byte, args any) ([]byte, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, invalidRequest(fmt.Errorf("the arguments cannot be marshalled to JSON: %w", err))
	}
	if raw, err = checkArguments(raw); err != nil {
		return nil, err
	}
	return append(b, raw...), nil
}

// maxPlainDepth is how deep plain arguments may be nested. A map that contains itself is
// deeper than any bound.
const maxPlainDepth = 32

// isPlain reports whether a value consists only of what a model's arguments decode to.
// For these, encoding without reflection gives what encoding/json gives.
func isPlain(v any, depth int) bool {
	switch v := v.(type) {
	case nil, string, bool, int, int64:
		return true
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case map[string]any:
		if depth == 0 || v == nil {
			return false
		}
		for _, member := range v {
			if !isPlain(member, depth-1) {
				return false
			}
		}
		return true
	case []any:
		if depth == 0 {
			return false
		}
		for _, entry := range v {
			if !isPlain(entry, depth-1) {
				return false
			}
		}
		return true
	}
	return false
}

// checkArguments checks that raw arguments are a JSON object, and returns them without
// the white space around them. Empty text and null give an empty object. Invalid JSON
// could smuggle a second message into the stream of a server.
func checkArguments(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, invalidRequest(errArgumentsNotObject)
	case !jsonscan.ValidWithin(raw, maxArgumentDepth):
		return nil, invalidRequest(errArgumentsNotJSON)
	}
	return raw, nil
}

// invalidRequest is the error of a request that cannot be sent as given.
func invalidRequest(err error) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
}
