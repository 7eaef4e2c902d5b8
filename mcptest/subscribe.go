package mcptest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/tools"
)

// levels are the log levels, lowest first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func (s *server) setLevel(r *request) ([]byte, *jsonrpc.Error) {
	if !slices.Contains(levels, r.params.Level) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "log level " + r.params.Level + " is not known"}
	}
	s.session.mu.Lock()
	s.session.level = r.params.Level
	s.session.mu.Unlock()
	return nil, nil
}

func (s *server) subscribe(r *request, on bool) ([]byte, *jsonrpc.Error) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if on {
		s.session.subscribed[r.params.URI] = true
	} else {
		delete(s.session.subscribed, r.params.URI)
	}
	return nil, nil
}

// listenFilter says what a subscriptions/listen is about.
type listenFilter struct {
	mcp.NotificationSubscriptions
	TaskIDs []string `json:"taskIds,omitempty"`
}

// openListen acknowledges subscriptions/listen, which stays open until the client
// cancels it. It has no answer, because a cancelled request is not answered. It runs in
// the goroutine that reads stdin, so that it precedes the next request.
func (s *server) openListen(r *request) *jsonrpc.Error {
	var want *listenFilter
	if err := json.Unmarshal(r.params.Notifications, &want); err != nil || want == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "subscriptions/listen: notifications is missing or no object"}
	}
	id := string(r.id)
	s.session.mu.Lock()
	want.TaskIDs = s.watchTasks(want.TaskIDs)
	s.session.listening[id] = *want
	s.session.mu.Unlock()
	s.notify("notifications/subscriptions/acknowledged", tools.JSON(map[string]any{
		"_meta": subscriptionID(id), "notifications": want,
	}))
	return nil
}

// closeListen ends a subscriptions/listen that was cancelled.
func (c *session) closeListen(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listening, string(id))
}

func subscriptionID(id string) map[string]json.RawMessage {
	return map[string]json.RawMessage{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
}

// notifyChanged announces a change: in the session of the initialize era, and on each
// subscriptions/listen that requested it.
func (s *server) notifyChanged(method string, wants func(listenFilter) bool, params map[string]any) {
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
			body = tools.JSON(params)
		}
		s.notify(method, body)
	}
	for _, id := range listeners {
		body := map[string]any{"_meta": subscriptionID(id)}
		maps.Copy(body, params)
		s.notify(method, tools.JSON(body))
	}
}

func (s *server) toolsChanged() {
	s.notifyChanged("notifications/tools/list_changed", func(w listenFilter) bool { return w.ToolsListChanged }, nil)
}

// NotifyUpdated announces that a resource has changed, if the client subscribed to it.
func (s *server) NotifyUpdated(_ *tools.Call, uri string) {
	s.session.mu.Lock()
	subscribed := s.session.subscribed[uri]
	legacy := s.session.version != ""
	s.session.mu.Unlock()
	if legacy && !subscribed {
		return
	}
	s.notifyChanged("notifications/resources/updated", func(w listenFilter) bool {
		return slices.Contains(w.ResourceSubscriptions, uri)
	}, map[string]any{"uri": uri})
}

// Log sends notifications/message if the client's level admits it. The level is that of
// the session; since 2026-07-28 it is that of the call, and without one nothing is
// sent.
func (s *server) Log(c *tools.Call, level, text string) {
	s.session.mu.Lock()
	least := s.session.level
	s.session.mu.Unlock()
	if c.Modern {
		var meta map[string]any
		_ = json.Unmarshal(c.Meta, &meta) // valid, because checkModern has read it
		if least, _ = meta[mcp.MetaKeyLogLevel].(string); least == "" {
			return
		}
	}
	if slices.Index(levels, level) < slices.Index(levels, least) {
		return
	}
	s.notify("notifications/message", tools.JSON(map[string]string{"level": level, "logger": s.script.Name, "data": text}))
}
