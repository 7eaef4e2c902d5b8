package facade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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

// marshalArguments encodes the arguments of a tool call as a JSON object. nil gives an
// empty object. The error is of KindInvalid.
func marshalArguments(args any) (json.RawMessage, error) {
	switch a := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		return checkArguments(a)
	case []byte:
		return checkArguments(a)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, invalidRequest(fmt.Errorf("the arguments cannot be marshalled to JSON: %w", err))
	}
	return checkArguments(raw)
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
