package mcptest

import (
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/rawjson"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// levels are the log levels, least first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func (s *server) setLevel(r *request) ([]byte, *rpcError) {
	if !slices.Contains(levels, r.params.Level) {
		return nil, &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "log level " + r.params.Level + " is not known"}
	}
	s.session.mu.Lock()
	s.session.level = r.params.Level
	s.session.mu.Unlock()
	return nil, nil
}

func (s *server) subscribe(r *request, on bool) ([]byte, *rpcError) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.session.subscribed == nil {
		s.session.subscribed = map[string]bool{}
	}
	if on {
		s.session.subscribed[r.params.URI] = true
	} else {
		delete(s.session.subscribed, r.params.URI)
	}
	return nil, nil
}

// openListen acknowledges subscriptions/listen and keeps it open until the client
// cancels it. It has no answer until then, and a cancelled request is not answered.
// It is done in the reader, so that it holds for the very next request.
func (s *server) openListen(r *request) *rpcError {
	var want *mcp.NotificationSubscriptions
	if err := json.Unmarshal(r.params.Notifications, &want); err != nil || want == nil {
		return &rpcError{Code: jsonrpc.CodeInvalidParams, Message: "subscriptions/listen: notifications is missing or no object"}
	}
	id := string(r.id)
	s.session.mu.Lock()
	if s.session.listening == nil {
		s.session.listening = map[string]mcp.NotificationSubscriptions{}
	}
	s.session.listening[id] = *want
	s.session.mu.Unlock()
	s.notify("notifications/subscriptions/acknowledged", rawjson.Marshal(map[string]any{
		"_meta": subscriptionID(id), "notifications": want,
	}))
	return nil
}

// closeListen ends the listening of a cancelled request, if it was one.
func (c *session) closeListen(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listening, string(id))
}

func subscriptionID(id string) map[string]json.RawMessage {
	return map[string]json.RawMessage{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
}

// notifyChanged announces that a list changed: on the session of the initialize era,
// and on each subscriptions/listen that asked for it.
func (s *server) notifyChanged(method string, wants func(mcp.NotificationSubscriptions) bool, params map[string]any) {
	s.session.mu.Lock()
	legacy := s.session.version != ""
	var listeners []string
	for id, want := range s.session.listening {
		if wants(want) {
			listeners = append(listeners, id)
		}
	}
	s.session.mu.Unlock()
	if legacy {
		var body []byte
		if params != nil {
			body = rawjson.Marshal(params)
		}
		s.notify(method, body)
	}
	for _, id := range listeners {
		body := map[string]any{"_meta": subscriptionID(id)}
		for k, v := range params {
			body[k] = v
		}
		s.notify(method, rawjson.Marshal(body))
	}
}

func (s *server) toolsChanged() {
	s.notifyChanged("notifications/tools/list_changed", func(w mcp.NotificationSubscriptions) bool { return w.ToolsListChanged }, nil)
}

// notifyUpdated announces that a resource changed, to those who subscribed to it.
func (s *server) NotifyUpdated(_ *tools.Call, uri string) {
	s.session.mu.Lock()
	subscribed := s.session.subscribed[uri]
	legacy := s.session.version != ""
	s.session.mu.Unlock()
	if legacy && !subscribed {
		return
	}
	s.notifyChanged("notifications/resources/updated", func(w mcp.NotificationSubscriptions) bool {
		return slices.Contains(w.ResourceSubscriptions, uri)
	}, map[string]any{"uri": uri})
}

// log sends notifications/message if the level is one that the client wants: of
// the session, or since 2026-07-28 of the call, where none means nothing.
func (s *server) Log(c *tools.Call, level, text string) {
	s.session.mu.Lock()
	least := s.session.level
	s.session.mu.Unlock()
	if c.Modern {
		var meta map[string]any
		_ = json.Unmarshal(c.Meta, &meta) // it was read before
		if least, _ = meta[mcp.MetaKeyLogLevel].(string); least == "" {
			return
		}
	}
	if slices.Index(levels, level) < slices.Index(levels, least) {
		return
	}
	s.notify("notifications/message", rawjson.Marshal(map[string]string{"level": level, "logger": s.script.Name, "data": text}))
}
