package gateway

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

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
