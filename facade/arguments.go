package facade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/plainjson"
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
		if plain, ok := plainjson.Append(b, v); ok {
			return plain, nil
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
