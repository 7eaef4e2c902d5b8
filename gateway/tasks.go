package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// When a server makes a task of a call, the gateway passes the task on to a client that follows tasks: a
// client of 2026-07-28 that declares the extension, or a client of 2025-11-25 that has declared tasks
// and asks for one. The client names the task by a sealed id, and each of its requests about the task
// becomes one request to the current incarnation of the server. For other clients the gateway follows
// the task itself, unless client and server both speak 2026-07-28: then the server is asked to answer
// without a task.

// tasksVersion is the version in which tasks are a part of the protocol. Since 2026-07-28 they are an
// extension.
const tasksVersion = "2025-11-25"

// legacyTaskCapabilities are declared by a session of 2025-11-25 whose client has declared tasks. For
// other clients they would do harm: many clients refuse to call a tool that requires a task if the
// server declares tasks.
var legacyTaskCapabilities = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)

// sessionBits returns the capabilities of the client of a session of that version.
func sessionBits(version string, declared json.RawMessage) uint16 {
	bits := capability.OfInitialize(declared)
	if version != tasksVersion {
		bits &^= capability.Tasks
	}
	return bits
}

// errTasksNotDeclared is the error of a request of 2026-07-28 that needs the extension for tasks, which
// its client does not declare (MCP, the extension for tasks: -32021).
var errTasksNotDeclared = &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the request needs the extension " + task.Extension + ", which the client does not declare",
	Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + task.Extension + `":{}}}}`)}

// checkTasks refuses a request about a task if its client does not follow tasks.
func (r *request) checkTasks() error {
	p := r.params
	switch {
	case p.modern() && !p.tasks:
		return errTasksNotDeclared
	case !p.modern() && !r.session.followsTasks.Load():
		return message.MethodNotFound(r.Method)
	}
	return nil
}

// readTTL returns how long the client wants a task to be kept; 0 if it does not say.
func readTTL(params json.RawMessage) (ttl time.Duration) {
	ms, _ := jsonscan.ReadNumber(jsonscan.Member(params, "ttl"))
	return time.Duration(min(max(ms, 0), maxTTL.Seconds()*1000)) * time.Millisecond
}

// maxTTL bounds how long a server is asked to keep a task.
const maxTTL = 365 * 24 * time.Hour

// KeyMeta is the member of _meta in which a client gives a tool call a key, with which it is executed at
// most once; see facade.WithKey. The facade.Client needs a journal. Equal keys of different principals
// are different keys, and a principal has the same ones with each profile.
const KeyMeta = "mcpvisor/key"

// taskHandle is a task that a client asks about.
type taskHandle struct {
	session *session
	name    opentasks.Name
	sealed  string
	tool    string // whose call has become the task; qualified
	modern  bool   // the client speaks 2026-07-28
	answers uint16 // of a modern client: what it answers, as bits of package capability
	opts    []facade.CallOption
}

// findTask returns the task that a request is about.
func (r *request) findTask() (*taskHandle, error) {
	p := r.params
	if err := r.checkTasks(); err != nil {
		return nil, err
	}
	if p.taskID == "" {
		return nil, message.InvalidParams("params of " + r.Method + " have no taskId")
	}
	name, tool, err := r.session.openTask(p.taskID)
	if err != nil {
		return nil, err
	}
	h := &taskHandle{session: r.session, name: name, sealed: p.taskID, tool: tool, modern: p.modern()}
	if h.modern {
		h.answers = p.declared
	}
	return h, nil
}

func (h *taskHandle) text() tasktext.Text {
	return tasktext.Text{Modern: h.modern, Sealed: h.sealed, ID: h.name.ID, Shorten: func(result json.RawMessage) json.RawMessage {
		return h.session.shortenResult(h.name.Server, h.tool, result) // the name that the client knows may have changed
	}}
}

// about makes a request about the task. If the server is down or ends meanwhile, it repeats the request
// at the next incarnation: these requests may be repeated.
func (h *taskHandle) about(ctx context.Context, request func(*facade.Task) error) error {
	return h.session.tenancy.whenUp(ctx, h.name.Server, func(client *facade.Client) error {
		t, err := relay.Of(client).TaskOf(h.name.Server, h.name.ID, append(slices.Clip(h.opts), relay.WithTaskOrigin(h.name.Origin))...)
		if err == nil {
			err = request(t)
		}
		var e *mcpvisor.Error
		if errors.As(err, &e) && (e.Kind == mcpvisor.ErrCrashed || e.Kind == mcpvisor.ErrEnded) {
			again := *e
			again.Outcome = mcpvisor.OutcomeNotSent
			return &again
		}
		return err
	})
}

// find returns the task at its server, which whenUp has not waited for.
func (h *taskHandle) find(opts ...facade.CallOption) (*facade.Task, error) {
	client, err := h.session.tenancy.clientOf(h.name.Server)
	if err != nil {
		return nil, withoutWait(err)
	}
	if (client == h.session.gateway.client) != (h.name.Copy == "") { // the share of the server has changed since openTask
		return nil, errTaskGone
	}
	return relay.Of(client).TaskOf(h.name.Server, h.name.ID, append(slices.Clip(opts), relay.WithTaskOrigin(h.name.Origin))...)
}

// errTaskGone is the error of a task that its server does not know.
var errTaskGone = message.InvalidParams("the server does not know the task: it has expired, or did not survive the end of the server")

// failure returns the error of a request about the task, without the server's id of the task.
func (h *taskHandle) failure(err error) error {
	var wire *jsonrpc.Error
	switch {
	case errors.Is(err, mcpvisor.ErrUnknownServer):
		h.forget()
		return errTaskGone
	case errors.Is(err, mcpvisor.ErrRPC) && errors.As(err, &wire) && (wire.Code == jsonrpc.CodeInvalidParams || wire.Code == jsonrpc.CodeMethodNotFound):
		h.forget()
		return errTaskGone
	}
	var failed *mcpvisor.Error
	if wire == nil && errors.As(err, &failed) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server " + h.name.Server + " has not said how the task is (" + string(failed.Kind) + "). The task may continue; ask again."}
	}
	return h.session.protocolError(h.name.Server, err)
}

// forget records that the task has ended.
func (h *taskHandle) forget() {
	h.session.gateway.tasks.Said(h.session.owner, opentasks.Maker{Peer: h.session.peer}, h.name, h.sealed, nil, true)
}

// ask asks the server about the task.
func (h *taskHandle) ask(ctx context.Context) (answer relay.TaskAnswer, asked *facade.Task, err error) {
	err = h.about(ctx, func(t *facade.Task) (err error) {
		asked = t
		answer, err = relay.Ask(ctx, t)
		return err
	})
	if err != nil {
		return answer, nil, h.failure(err)
	}
	h.session.gateway.tasks.Said(h.session.owner, opentasks.Maker{Peer: h.session.peer}, h.name, h.sealed, answer.JSON, answer.Ended() && h.modern)
	if !h.offered() { // a reload has hidden it meanwhile
		return answer, nil, errUnknownTask
	}
	return answer, asked, nil
}

// getTask answers tasks/get.
func (r *request) getTask() (any, error) {
	h, err := r.findTask()
	if err != nil {
		return nil, err
	}
	answer, asked, err := h.ask(r.ctx)
	if err != nil {
		return nil, err
	}
	return h.state(r.ctx, answer, asked)
}

// state returns the state of the task. If a task of 2025-11-25 has ended, it asks for the result, too,
// for clients that expect it.
func (h *taskHandle) state(ctx context.Context, answer relay.TaskAnswer, asked *facade.Task) (json.RawMessage, error) {
	var result, failure json.RawMessage
	if h.modern && !answer.Modern && answer.Ended() && answer.State != string(task.Cancelled) {
		var err error
		if result, err = asked.WaitRaw(ctx); err != nil {
			if answer.State != string(task.Failed) || !errors.Is(err, mcpvisor.ErrRPC) {
				return nil, h.failure(err)
			}
			failure, _ = json.Marshal(h.session.protocolError(h.name.Server, err)) // a jsonrpc.Error always marshals
		}
	}
	state := h.text().State(answer.JSON, result, failure)
	if h.modern && !answer.Modern && answer.State == string(task.InputRequired) {
		b := jsonscan.OpenObject(state)
		if held := h.awaitQuestions(h.answers); held != nil {
			b.Add("inputRequests", held.Requests(ctx))
		} else {
			b.Add("inputRequests", []byte("{}"))
		}
		return b.Close(), nil
	}
	return state, nil
}

// updateTask answers tasks/update (2026-07-28).
func (r *request) updateTask() (any, error) {
	p := r.params
	if !p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	h, err := r.findTask()
	if err != nil {
		return nil, err
	}
	if len(p.next.InputResponses) == 0 {
		return nil, errInputResponses
	}
	if held := h.session.gateway.tasks.WaitingFor(h.session.owner, h.name); held != nil {
		if err := held.Answer(p.next.InputResponses); err != nil {
			return nil, err
		}
		return struct{}{}, nil
	}
	err = h.about(r.ctx, func(t *facade.Task) error { return relay.Respond(r.ctx, t, p.next.InputResponses) })
	switch {
	case errors.Is(err, mcpvisor.ErrInvalid): // of a server before 2026-07-28, for which no tasks/result waits
		return nil, errNoTaskQuestion
	case err != nil:
		return nil, h.failure(err)
	}
	return struct{}{}, nil
}

// errNoTaskQuestion is the error of answers to what a task does not ask, or no longer.
var errNoTaskQuestion = message.InvalidParams("the answers were not passed on: the task asks for nothing at the moment, or its question was withdrawn because no client asked about the task for a minute; ask again with tasks/get")

// cancelTask answers tasks/cancel.
func (r *request) cancelTask() (any, error) {
	h, err := r.findTask()
	if err != nil {
		return nil, err
	}
	canceled := h.about(r.ctx, func(t *facade.Task) error { return t.Cancel(r.ctx) })
	if h.modern && canceled == nil {
		h.forget() // the client may forget it, too
		return struct{}{}, nil
	}
	if canceled != nil && !errors.Is(canceled, mcpvisor.ErrRPC) {
		return nil, h.failure(canceled)
	}
	answer, asked, err := h.ask(r.ctx) // its state tells which of these it is: ended, unknown or canceled
	switch {
	case err != nil:
		return nil, err
	case answer.Ended() && h.modern:
		return struct{}{}, nil
	case answer.Ended() && answer.State != string(task.Cancelled):
		return nil, message.InvalidParams("the task has ended: it is " + answer.State)
	case canceled != nil:
		return nil, r.session.protocolError(h.name.Server, canceled)
	}
	h.forget()
	return h.state(r.ctx, answer, asked)
}

// taskResult answers tasks/result (2025-11-25): it waits until the task has ended. Meanwhile the client
// answers the questions of the task.
func (r *request) taskResult() (any, error) {
	p := r.params
	if p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	h, err := r.findTask()
	if err != nil {
		return nil, err
	}
	p.meta, p.progressToken = nil, nil // they are those of the request, and not of the call
	if h.opts, err = (&upstreamRequest{request: r, server: h.name.Server}).callOptions(r.tell); err != nil {
		return nil, err
	}
	r.gateway.tasks.Said(r.session.owner, opentasks.Maker{Peer: r.session.peer}, h.name, h.sealed, nil, false) // so that questions name it
	t, err := h.find(h.opts...)
	if err != nil {
		return nil, h.failure(err)
	}
	result, err := t.WaitRaw(r.ctx)
	switch {
	case !h.offered(): // a reload has hidden it meanwhile
		return nil, errUnknownTask
	case errors.Is(err, mcpvisor.ErrInputRequired), err != nil && r.ctx.Err() != nil:
		return nil, r.session.protocolError(h.name.Server, err)
	case errors.Is(err, mcpvisor.ErrRPC), errors.Is(err, mcpvisor.ErrCrashed), errors.Is(err, mcpvisor.ErrEnded):
		h.forget() // the call has failed with it
		return nil, r.session.protocolError(h.name.Server, err)
	case err != nil:
		return nil, h.failure(err)
	}
	h.forget()
	return h.text().Result(result), nil
}

// listTasks answers tasks/list (2025-11-25) with the open tasks of the client that this process knows.
func (r *request) listTasks() (any, error) {
	p := r.params
	if p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	if err := r.checkTasks(); err != nil {
		return nil, err
	}
	return struct {
		Tasks []opentasks.Summary `json:"tasks"`
	}{slices.DeleteFunc(r.gateway.tasks.List(r.session.owner, r.session.tenancy.key, legacyKey), func(one opentasks.Summary) bool {
		_, _, err := r.session.openTask(one.ID)
		return err != nil // a reload has hidden it
	})}, nil
}

// A client gets a sealed id in place of the server's id of a task. It contains all that another process with the same key
// needs to serve the task: the owner, the server, the server's id, which of the tasks with that id it is, an expiry, the
// key of the tenant whose copy has the task, and the tool.

// taskKind is the kind of sealed text for ids of tasks.
const taskKind = "task"

// maxSealedTask bounds the ids that are opened, in bytes. sealTask makes none that is longer.
const maxSealedTask = 8 << 10

// sealTask returns the id by which the client knows a task.
func (s *session) sealTask(name opentasks.Name, tool string, expiry time.Time) string {
	return seal.Seal(s.gateway.opts.key, taskKind, string(principalDigest(s.owner)), name.Server, name.ID, seal.Time(expiry), name.Origin, name.Copy, tool)
}

func principalDigest(principal string) []byte {
	sum := sha256.Sum256([]byte(principal))
	return sum[:16]
}

// errUnknownTask is the error of any id that is not valid: it does not tell a forged id from one of
// another owner.
var errUnknownTask = message.InvalidParams("there is no such task: the id is not one that this client was given")

// openTask returns the task that an id of the client names, and its tool. A task of a tool or server that the
// client may no longer use does not exist for it.
func (s *session) openTask(sealed string) (name opentasks.Name, tool string, err error) {
	if len(sealed) > maxSealedTask {
		return name, "", errUnknownTask
	}
	fields, err := seal.Open(s.gateway.opts.key, taskKind, sealed)
	if err != nil || len(fields) != 7 || fields[0] != string(principalDigest(s.owner)) || !s.gateway.offersTask(fields[1], fields[6]) {
		return name, "", errUnknownTask
	}
	if expiry := seal.ReadTime(fields[3]); !time.Now().Before(expiry) {
		return name, "", message.InvalidParams("the id of the task has expired at " + expiry.UTC().Format(time.RFC3339))
	}
	if !s.tenancy.mayUse(fields[1], fields[5]) {
		return opentasks.Name{}, "", errTaskGone
	}
	return opentasks.Name{Server: fields[1], ID: fields[2], Origin: fields[4], Copy: fields[5]}, fields[6], nil
}

// offered reports whether the client may still ask about the task.
func (h *taskHandle) offered() bool { return h.session.gateway.offersTask(h.name.Server, h.tool) }

// A server of 2025-11-25 asks for the input of a task by requests while tasks/result waits. A client since
// 2026-07-28 reads the questions of a task in the answer to tasks/get, and answers with tasks/update. So the
// gateway makes a tasks/result wait while such a client asks about a task that requires input.

// awaitQuestions makes a tasks/result wait for the task, unless one does, and returns it; nil if the
// task is not open. bits says what the client answers.
func (h *taskHandle) awaitQuestions(bits uint16) *opentasks.Waiting {
	return h.session.gateway.tasks.Wait(h.session.owner, h.name, func(ctx context.Context, q *opentasks.Waiting) {
		if t, err := h.find(inputHandlers(q, bits)...); err == nil {
			_, _ = t.WaitRaw(ctx) // the client asks for what came of the task
		}
	})
}

// inputHandlers returns the options of tasks/result with handlers for its questions. The handlers of the
// facade.Client answer what the client does not; bits says what it does.
func inputHandlers(q *opentasks.Waiting, bits uint16) []facade.CallOption {
	answers := capability.Answers(bits)
	if answers == (facade.Declared{}) {
		return nil
	}
	return []facade.CallOption{relay.WithHandlers(&relay.Handlers{RawAnswers: answers,
		Raw: func(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
			if err := capability.Check(bits, r); err != nil {
				return nil, err
			}
			return q.Ask(ctx, r)
		}})}
}

// sealQuestion returns the params of a question of a server, in which a task has the id that the client
// knows. A task that the client does not know is left out.
func (s *session) sealQuestion(r relay.ServerRequest) json.RawMessage {
	return tasktext.Question(r.Params, func(id string) string {
		return s.gateway.tasks.SealedOf(s.owner, opentasks.Name{Server: r.Server, ID: id, Copy: s.tenancy.copyKey(r.Server)})
	})
}

// Notifications about a task go to the client that knows its id: in 2025-11-25 to the session that made the
// call, and since 2026-07-28 to the subscriptions/listen that names the task.

// maxTaskIDs bounds the taskIds of one subscriptions/listen.
const maxTaskIDs = 64

// subscribedNotifications are the notifications that a subscriptions/listen asks for.
type subscribedNotifications struct {
	mcp.NotificationSubscriptions
	TaskIDs []string `json:"taskIds,omitempty"`
}

// watchedTasks returns the tasks of a subscriptions/listen, by their sealed ids. Ids that are not of
// this client are left out.
func (r *request) watchedTasks() (map[string]*taskHandle, error) {
	p := r.params
	ids := p.notifications.TaskIDs
	switch {
	case len(ids) == 0:
		return nil, nil //nolint:nilnil // none
	case !p.modern() || !p.tasks:
		return nil, errTasksNotDeclared
	case len(ids) > maxTaskIDs:
		return nil, message.InvalidParams(fmt.Sprintf("params of subscriptions/listen have %d taskIds; use at most %d", len(ids), maxTaskIDs))
	}
	watched := map[string]*taskHandle{}
	for _, id := range ids {
		if name, tool, err := r.session.openTask(id); err == nil {
			watched[id] = &taskHandle{session: r.session, name: name, sealed: id, tool: tool, modern: true}
		}
	}
	return watched, nil
}

// watchTasks reports the changes of tasks to a listener until ctx ends.
func (s *session) watchTasks(ctx context.Context, n *notifier, l *listener, tasks map[string]*taskHandle) {
	for sealed, h := range tasks {
		h.watch(ctx, func(full, brief json.RawMessage) {
			n.ReportTask(l, notices.TaskNote{ID: sealed, Method: "notifications/tasks", Params: full, Brief: brief})
		}, func() {})
	}
}

// watchLegacyTask reports the changes of a task to the session before 2026-07-28, until the task or the
// session ends. Over HTTP the session is kept until then, so that its stream may open later.
func (s *session) watchLegacyTask(h *taskHandle) {
	s.notify.Watch(s.unwatched != nil) // over stdio, nothing is reported before notifications/initialized
	h.watch(s.ctx, func(full, brief json.RawMessage) {
		s.notify.ReportTask(nil, notices.TaskNote{ID: h.sealed, Method: "notifications/tasks/status", Params: full, Brief: brief})
	}, func() {
		s.notify.Unwatch()
		if s.unwatched != nil {
			s.unwatched()
		}
	})
}

// watch calls report, from another goroutine, when the task has changed, and ended after the last
// report. brief leaves out the result of the task.
func (h *taskHandle) watch(ctx context.Context, report func(full, brief json.RawMessage), ended func()) {
	if !h.session.gateway.tasks.Watch(h.session.owner) {
		ended()
		return
	}
	go func() {
		defer ended()
		defer h.session.gateway.tasks.Unwatch(h.session.owner)
		t, err := h.find()
		if err != nil {
			return
		}
		_ = relay.Watch(ctx, t, func(a relay.TaskAnswer) { // a client without notifications polls
			if !h.offered() { // a reload has hidden it
				return
			}
			report(h.text().Notice(a.JSON, true), h.text().Notice(a.JSON, false))
		})
	}()
}
