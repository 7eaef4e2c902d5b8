package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
)

// Notifications about tasks go to the client that has the id: in 2025-11-25 to the session that made
// the call, and since 2026-07-28 to the subscriptions/listen that names the task.

// maxTaskIDs bounds the ids of tasks in one subscriptions/listen.
const maxTaskIDs = 64

// subscribedNotifications are the notifications of a subscriptions/listen.
type subscribedNotifications struct {
	mcp.NotificationSubscriptions
	TaskIDs []string `json:"taskIds,omitempty"`
}

// watchedTasks returns the tasks of a subscriptions/listen, by the ids of the client. What is none of
// this client is left out.
func (c *connection) watchedTasks(r *request, p *params) (map[string]opentasks.Name, error) {
	ids := p.Notifications.TaskIDs
	switch {
	case len(ids) == 0:
		return map[string]opentasks.Name{}, nil
	case !p.modern() || !readRounds(r.Params, p).tasks:
		return nil, errTasksNotDeclared
	case len(ids) > maxTaskIDs:
		return nil, message.InvalidParams(fmt.Sprintf("params of subscriptions/listen have %d taskIds; use at most %d", len(ids), maxTaskIDs))
	}
	watched := map[string]opentasks.Name{}
	for _, id := range ids {
		if name, err := c.openTask(id); err == nil {
			watched[id] = name
		}
	}
	return watched, nil
}

// watchTasks reports the changes of tasks to a listener until ctx ends.
func (c *connection) watchTasks(ctx context.Context, n *notifier, l *listener, tasks map[string]opentasks.Name) {
	for sealed, name := range tasks {
		h := &taskHandle{c: c, name: name, sealed: sealed, modern: true}
		h.watch(ctx, func(full, brief json.RawMessage) {
			n.ReportTask(l, notices.TaskNote{ID: sealed, Method: "notifications/tasks", Params: full, Brief: brief})
		}, func() {})
	}
}

// watchLegacyTask reports the changes of a task to the session before 2026-07-28, until either ends. Until then the
// session over HTTP is kept, so that its stream may open later.
func (c *connection) watchLegacyTask(name opentasks.Name, sealed string) {
	h := &taskHandle{c: c, name: name, sealed: sealed}
	c.notify.Watch()
	h.watch(c.ctx, func(full, brief json.RawMessage) {
		c.notify.ReportTask(nil, notices.TaskNote{ID: sealed, Method: "notifications/tasks/status", Params: full, Brief: brief})
	}, func() {
		c.notify.Unwatch()
		if c.unwatched != nil {
			c.unwatched()
		}
	})
}

// watch calls report, from another goroutine, when the task has changed, and ended when it reports no more. brief is
// without what came of the task.
func (h *taskHandle) watch(ctx context.Context, report func(full, brief json.RawMessage), ended func()) {
	if !h.c.tasks.Watch(h.c.owner) {
		ended()
		return
	}
	go func() {
		defer ended()
		defer h.c.tasks.Unwatch(h.c.owner)
		t, err := h.find()
		if err != nil {
			return
		}
		_ = t.Watch(ctx, func(a facade.TaskAnswer) { // without a notification the client asks
			report(h.text().Notice(a.JSON, true), h.text().Notice(a.JSON, false))
		})
	}()
}
