package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// params has the members of params that the methods read, except those of tools/call.
type params struct {
	Meta struct {
		ProtocolVersion string          `json:"io.modelcontextprotocol/protocolVersion"`
		ProgressToken   json.RawMessage `json:"progressToken"`
		LogLevel        string          `json:"io.modelcontextprotocol/logLevel"`
	} `json:"_meta"`
	ProtocolVersion string                   `json:"protocolVersion"`
	Cursor          string                   `json:"cursor"`
	Name            string                   `json:"name"`
	Arguments       map[string]string        `json:"arguments"`
	URI             string                   `json:"uri"`
	TaskID          string                   `json:"taskId"`
	Level           string                   `json:"level"`
	Ref             completionRef            `json:"ref"`
	Argument        completionArgument       `json:"argument"`
	Context         completionContext        `json:"context"`
	Notifications   *subscribedNotifications `json:"notifications"`
	RequestID       any                      `json:"requestId"`
}

// modern reports whether the request is of version 2026-07-28 or later: each such request names its
// version.
func (p *params) modern() bool { return p.Meta.ProtocolVersion >= modernVersion }

// memberNames are the members that are read of an object, and those of the objects in it; nil: the
// member has none.
type memberNames map[string]memberNames

// paramNames are the members that are read of params: those of the type params, and those that other
// functions read.
var paramNames = memberNames{
	"_meta": {
		mcp.MetaKeyProtocolVersion: nil, mcp.MetaKeyClientCapabilities: nil, mcp.MetaKeyClientInfo: nil, mcp.MetaKeyLogLevel: nil,
		"progressToken": nil,
	},
	"protocolVersion": nil, "capabilities": nil, "clientInfo": nil,
	"cursor": nil, "name": nil, "arguments": nil, "uri": nil, "taskId": nil, "level": nil, "requestId": nil,
	"inputResponses": nil, "requestState": nil,
	"ref":           {"type": nil, "name": nil, "uri": nil},
	"argument":      {"name": nil, "value": nil},
	"context":       {"arguments": nil},
	"notifications": {"toolsListChanged": nil, "promptsListChanged": nil, "resourcesListChanged": nil, "resourceSubscriptions": nil, "taskIds": nil},
}

// ambiguousMember is the error of a member that two readers may understand differently.
type ambiguousMember string

// Error implements error.
func (e ambiguousMember) Error() string { return string(e) }

func errTwice(name string) error {
	return ambiguousMember("the member " + message.Quote(name) + " is there twice")
}

// check refuses an object that has a listed member twice, or under a name that differs only in case.
// encoding/json accepts both, and takes the last value. A proxy that decides by the headers of the
// request may not see the same value; see checkHeaders.
func (names memberNames) check(object []byte) error {
	seen := make(map[string]bool, len(names))
	err := jsonscan.EachMember(object, func(key string, value []byte) error {
		inner, known := names[key]
		switch {
		case known && seen[key]:
			return errTwice(key)
		case known:
			seen[strings.Clone(key)] = true
			if inner != nil {
				return inner.check(value)
			}
			return nil
		}
		for name := range names {
			if strings.EqualFold(name, key) {
				return ambiguousMember("the member " + message.Quote(key) + " must be written " + message.Quote(name))
			}
		}
		return nil
	})
	if wrong := ambiguousMember(""); errors.As(err, &wrong) {
		return wrong
	}
	return nil // decoding it checks whether it is an object
}

// maxParamsValues bounds the JSON values in the params of a request. Those of tools/call are not bounded
// so, as they are passed on undecoded.
const maxParamsValues = 10_000

// readParams decodes params, which may be absent.
func readParams(ctx context.Context, raw json.RawMessage) (*params, error) {
	p := new(params)
	if len(raw) == 0 || string(raw) == "null" {
		return p, nil
	}
	if _, err := jsonbound.Check(ctx, raw, jsonbound.Limits{Elements: maxParamsValues}); err != nil {
		return nil, message.InvalidParams("params have " + err.Error())
	}
	if err := paramNames.check(raw); err != nil {
		return nil, message.InvalidParams("params cannot be read: " + err.Error())
	}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, message.InvalidParams("params cannot be read: " + wrongType(err))
	}
	return p, nil
}

// wrongType returns the text of a decoding error without the names of Go types.
func wrongType(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Field == "":
		return "they must be an object, not " + wrong.Value
	}
	return "the value of " + wrong.Field + " must not be " + wrong.Value
}
