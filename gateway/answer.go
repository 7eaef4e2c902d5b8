package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
)

// params are the members of params that the methods read, tools/call excepted.
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

// modern reports whether the request is of version 2026-07-28 or newer: each of its
// requests names the version.
func (p *params) modern() bool { return p.Meta.ProtocolVersion >= modernVersion }

// methods are the requests that a session answers, tools/call excepted.
var methods = map[string]func(*connection, *request, *params) (any, error){
	"initialize":               (*connection).initialize,
	"server/discover":          (*connection).discover,
	"ping":                     func(*connection, *request, *params) (any, error) { return struct{}{}, nil },
	"tools/list":               listOf(func(l *listing.Listing) *listing.List { return &l.Tools }),
	"prompts/list":             listOf(func(l *listing.Listing) *listing.List { return &l.Prompts }),
	"prompts/get":              (*connection).getPrompt,
	"resources/list":           listOf(func(l *listing.Listing) *listing.List { return &l.Resources }),
	"resources/templates/list": listOf(func(l *listing.Listing) *listing.List { return &l.Templates }),
	"resources/read":           (*connection).readResource,
	"resources/subscribe":      (*connection).subscribe,
	"resources/unsubscribe":    (*connection).unsubscribe,
	"completion/complete":      (*connection).complete,
	"logging/setLevel":         (*connection).setLoggingLevel,
	"subscriptions/listen":     (*connection).listen,
	"tasks/get":                (*connection).getTask,
	"tasks/update":             (*connection).updateTask,
	"tasks/cancel":             (*connection).cancelTask,
	"tasks/result":             (*connection).taskResult,
	"tasks/list":               (*connection).listTasks,
}

// answer returns the result of a request, or a *jsonrpc.Error.
func (c *connection) answer(r *request) (json.RawMessage, error) {
	if r.Method == "tools/call" {
		return c.callTool(r)
	}
	method, ok := methods[r.Method]
	if !ok {
		return nil, message.MethodNotFound(r.Method)
	}
	p, err := readParams(r.ctx, r.Params)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(p.Meta.ProtocolVersion); err != nil {
		return nil, err
	}
	c.noteVersion(p.modern())
	if strings.HasSuffix(r.Method, "/list") {
		if err := r.acquire(c.placesOf().listing); err != nil {
			return nil, err
		}
		r.lists = true
	}
	result, err := method(c, r, p)
	if err != nil {
		return nil, err
	}
	if list, ok := result.(json.RawMessage); ok {
		return list, nil
	}
	return message.Result(result, p.modern())
}

// maxParamsValues is how many values the params of a request may have, those of tools/call
// excepted, which are passed on undecoded.
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
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, message.InvalidParams("params cannot be read: " + wrongType(err))
	}
	return p, nil
}

// wrongType is the text of an error of readParams without names of Go's types.
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

// maxNotificationBytes bounds the params of a notification, which is read while Write waits.
const maxNotificationBytes = 64 << 10

// receiveNotification handles a notification of the peer. Those that it does not know are
// ignored.
func (c *connection) receiveNotification(r *jsonrpc.Request) {
	switch r.Method {
	case "notifications/initialized":
		c.notify.startSession()
		if c.connected {
			c.opts.standalone.set(c, eraLegacy)
		}
	case "notifications/roots/list_changed":
		c.rootsChanged()
	case "notifications/cancelled":
		if len(r.Params) > maxNotificationBytes {
			return
		}
		p, err := readParams(c.ctx, r.Params)
		if err != nil || p.RequestID == nil {
			return
		}
		if id, err := jsonrpc.MakeID(p.RequestID); err == nil {
			c.requests().cancel(id)
		}
	}
}
