package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// firstModern is the first protocol version of the modern era.
const firstModern = "2026-07-28"

// Modern reports whether the server is ready and speaks 2026-07-28 or later.
func (v *View) Modern() bool { return v.protocol >= firstModern }

// Incarnation names the incarnation in the view, in this process and in others; empty if there was
// none yet.
func (v *View) Incarnation() string {
	if v.current == nil {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x", v.current.started.UnixNano(), v.Gen, v.Epoch)
}

// HasNoSession reports whether the server may be restarted unseen: over HTTP there are no sessions since
// 2026-07-28, and before that some servers name none.
func (v *View) HasNoSession() bool {
	if v.current == nil {
		return false
	}
	return v.current.session.Stateless()
}

// The requests a second about tasks that all followers together send to one server, and how many of
// them at once.
const (
	maxTaskRate  = 500
	maxTaskBurst = 50
)

// AwaitTaskTurn waits until a follower may send one more request about a task to the server, in the
// order of the calls. It returns early when ctx or the session ends.
func (v *View) AwaitTaskTurn(ctx context.Context) {
	select { // who leaves the queue has reserved nothing
	case v.stats.taskQueue <- struct{}{}:
	case <-ctx.Done():
		return
	case <-v.Ended():
		return
	}
	defer func() { <-v.stats.taskQueue }()
	turn := v.stats.taskTurns.Reserve()
	if backoff.SleepUntil(ctx, v.Ended(), turn.Delay()) != nil || isClosed(v.Ended()) {
		turn.Cancel()
	}
}

// Ended returns a channel that is closed when the session of the view has ended; a closed
// one if there is no session.
func (v *View) Ended() <-chan struct{} {
	if v.current == nil {
		return noSession
	}
	return v.current.session.Dead()
}

// noSession is closed.
var noSession = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// AnswerInputs has the handlers of the caller, or of the host, answer what a task of the server waits for
// (inputRequests), and returns inputResponses. The error is a *mcpvisor.Error, or that of ctx
// or of the session.
func (rt *Runtime) AnswerInputs(ctx context.Context, v *View, caller *transport.Caller, requests json.RawMessage) (json.RawMessage, error) {
	if v.State != supervisor.StateReady {
		return nil, v.Unavailable()
	}
	return v.current.session.AnswerInputs(ctx, caller, requests)
}

// Redact returns a JSON value without the secrets that the server's current session knows.
func (v *View) Redact(raw json.RawMessage) json.RawMessage {
	if v.current != nil {
		return v.current.session.RedactJSON(raw)
	}
	return raw
}

// TaskRecovered records that the incarnation of the view has the task of a call that an earlier
// one had begun.
func (rt *Runtime) TaskRecovered(v *View, tool string) {
	v.stats.tasksRecovered.Add(1)
	rt.publishTask(mcpvisor.EventTaskRecovered, v, tool)
}

// TaskLost records that the task of a call did not survive the end of its server.
func (rt *Runtime) TaskLost(v *View, tool string) {
	v.stats.tasksLost.Add(1)
	rt.publishTask(mcpvisor.EventTaskLost, v, tool)
}

// publishTask publishes an event about a call. It does not pass through the manager, as it
// changes nothing there.
func (rt *Runtime) publishTask(kind mcpvisor.EventKind, v *View, tool string) {
	rt.hub.Publish(mcpvisor.Event{Time: time.Now(), Kind: kind, Server: v.Name, Gen: v.Gen, Epoch: v.Epoch, Tool: tool})
}
