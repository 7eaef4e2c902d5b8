package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// A call of which a server makes a task is handed to the client, if that follows tasks: one of
// 2026-07-28 that declares the extension, and one of 2025-11-25 that has declared tasks and asks for
// one. The client asks for the task under an id that is sealed; each of its requests is one request
// to the server, to the incarnation of the moment. For other clients the gateway follows the task, if
// the server speaks an earlier version than 2026-07-28 or the client does.

// tasksVersion is the version whose tasks are a part of the protocol; since 2026-07-28 they are an
// extension.
const tasksVersion = "2025-11-25"

// legacyTaskCapabilities are what a session of 2025-11-25 declares to a client that has declared
// tasks. Others get none, because many refuse to call tools that require a task in that case.
var legacyTaskCapabilities = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)

// sessionBits are the capabilities of the client of a session of that version.
func sessionBits(version string, params json.RawMessage) uint16 {
	bits := capability.OfInitialize(params)
	if version != tasksVersion {
		bits &^= capability.Tasks
	}
	return bits
}

// errTasksNotDeclared is the error of a request of 2026-07-28 whose client does not declare what it
// needs (MCP, the extension for tasks: -32021).
var errTasksNotDeclared = &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the request needs the extension " + task.Extension + ", which the client does not declare",
	Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + task.Extension + `":{}}}}`)}

// checkTasks refuses a request about tasks of a client that does not follow any.
func (c *connection) checkTasks(r *request, p *params) error {
	switch {
	case p.modern() && !readRounds(r.Params, p).tasks:
		return errTasksNotDeclared
	case !p.modern() && !c.followsTasks.Load():
		return message.MethodNotFound(r.Method)
	}
	return nil
}

// taskCall is a tool call as far as a task may be made of it.
type taskCall struct {
	c      *connection
	modern bool
	tool   string
	relay  *facade.TaskRelay // nil: the client gets no task
	copied bool              // a copy of the server got the call
}

// beginTaskCall adds the options of a call for tasks, and of its key. Each needs one end.
func (c *connection) beginTaskCall(t *toolCall, tool string, opts []facade.CallOption) (*taskCall, []facade.CallOption, error) {
	made := &taskCall{c: c, modern: t.version >= modernVersion, tool: tool}
	switch {
	case t.hasKey: // the journal follows the task
		return made, append(opts, facade.WithKey(c.journalKey(t.key))), nil
	case made.modern && t.rounds.tasks:
		made.relay = &facade.TaskRelay{}
	case made.modern:
		return made, append(opts, facade.WithoutTasks()), nil
	case len(t.task) > 0 && c.followsTasks.Load():
		if listed, ok := c.client.Tool(tool); ok && listed.TaskSupport == "" {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool " + message.Quote(t.name) + " cannot be called as a task. Nothing was sent."}
		}
		made.relay = &facade.TaskRelay{TTL: readTTL(t.task)}
	default:
		return made, opts, nil
	}
	if err := c.tasks.Reserve(c.owner); err != nil {
		return nil, nil, err
	}
	return made, append(opts, facade.WithTaskRelay(made.relay)), nil
}

// end gives back what the call holds.
func (t *taskCall) end() {
	if t.relay != nil {
		t.c.tasks.Release(t.c.owner)
	}
}

// result is the result of the call for the client.
func (t *taskCall) result(raw json.RawMessage) json.RawMessage {
	if t.relay == nil || t.relay.ID == "" || !task.Is(raw, t.relay.Modern) { // an interceptor may have replaced it
		return raw
	}
	c, name := t.c, opentasks.Name{Server: t.relay.Server, ID: t.relay.ID}
	if t.copied {
		name.Copy = c.tenantKey
	}
	said, _ := task.Read(raw) // the facade has read it
	sealed := c.sealTask(name, time.Now().Add(max(c.opts.http.SessionLifetime, said.TTL)))
	c.tasks.Said(c.owner, opentasks.Maker{Peer: c.peer, Tool: t.tool}, name, sealed, raw, said.Status.Final() && t.modern)
	if !t.modern {
		c.watchLegacyTask(name, sealed)
	}
	return tasktext.Text{Modern: t.modern, Sealed: sealed, ID: name.ID}.Created(raw)
}

// readTTL reads how long the client wants a task to be kept; 0 if it does not say.
func readTTL(params json.RawMessage) (ttl time.Duration) {
	_ = jsonscan.EachMember(params, func(key string, value []byte) error {
		if key == "ttl" {
			ms, _ := jsonscan.ReadNumber(value)
			ttl = time.Duration(min(max(ms, 0), maxTTL.Seconds()*1000)) * time.Millisecond
		}
		return nil
	})
	return ttl
}

// maxTTL is the longest time that a server is asked to keep a task.
const maxTTL = 365 * 24 * time.Hour

// KeyMeta is the member of _meta by which a client names a tool call, so that it is executed at most
// once; see facade.WithKey. It needs a client with a journal. Keys of different principals differ.
const KeyMeta = "mcpvisor/key"

// journalKey is the key of a call in the journal.
func (c *connection) journalKey(key string) string {
	if c.owner == "" || key == "" {
		return key
	}
	sum := sha256.Sum256([]byte(c.owner))
	return hex.EncodeToString(sum[:6]) + ":" + key
}

// taskHandle is a task that a client asks about.
type taskHandle struct {
	c       *connection
	name    opentasks.Name
	sealed  string
	modern  bool   // the client
	answers uint16 // since 2026-07-28, what the client answers
	opts    []facade.CallOption
}

// findTask returns the task that a request is about.
func (c *connection) findTask(r *request, p *params) (*taskHandle, error) {
	if err := c.checkTasks(r, p); err != nil {
		return nil, err
	}
	if p.TaskID == "" {
		return nil, message.InvalidParams("params of " + r.Method + " have no taskId")
	}
	name, err := c.openTask(p.TaskID)
	if err != nil {
		return nil, err
	}
	h := &taskHandle{c: c, name: name, sealed: p.TaskID, modern: p.modern()}
	if h.modern {
		h.answers = readRounds(r.Params, p).declared
	}
	return h, nil
}

func (h *taskHandle) text() tasktext.Text {
	return tasktext.Text{Modern: h.modern, Sealed: h.sealed, ID: h.name.ID, Shorten: func(result json.RawMessage) json.RawMessage {
		return h.c.shortenResult(h.name.Server, result) // nobody kept the name of the tool
	}}
}

// about makes a request about the task, also at the next incarnation of the server if that is down or
// ends meanwhile: these requests may be repeated.
func (h *taskHandle) about(ctx context.Context, request func(*facade.Task) error) error {
	return h.c.whenUp(ctx, h.name.Server, func(client *facade.Client) error {
		t, err := client.TaskOf(h.name.Server, h.name.ID, h.opts...)
		if err == nil {
			err = request(t)
		}
		var e *mcpvisor.Error
		if errors.As(err, &e) && e.Kind == mcpvisor.KindCrashed {
			again := *e
			again.Outcome = mcpvisor.OutcomeNotSent
			return &again
		}
		return err
	})
}

// find returns the task at its server.
func (h *taskHandle) find(opts ...facade.CallOption) (*facade.Task, error) {
	client, err := h.c.clientOf(h.name.Server)
	if err != nil {
		return nil, withoutWait(err)
	}
	if (client == h.c.client) != (h.name.Copy == "") { // the server is shared, or copied, since openTask
		return nil, errTaskGone
	}
	return client.TaskOf(h.name.Server, h.name.ID, opts...)
}

// errTaskGone is the error of a task that its server does not know.
var errTaskGone = message.InvalidParams("the server does not know the task any more: it has expired, or did not survive the end of the server")

// failure is the error of a request about the task, without the server's id.
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
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server " + h.name.Server + " has not said how the task is (" + string(failed.Kind) + "). The task may go on; ask again."}
	}
	return h.c.protocolError(h.name.Server, err)
}

// forget notes that the task has ended.
func (h *taskHandle) forget() {
	h.c.tasks.Said(h.c.owner, opentasks.Maker{Peer: h.c.peer}, h.name, h.sealed, nil, true)
}

// ask asks the server for the task.
func (h *taskHandle) ask(ctx context.Context) (answer facade.TaskAnswer, asked *facade.Task, err error) {
	err = h.about(ctx, func(t *facade.Task) (err error) {
		asked = t
		answer, err = t.Ask(ctx)
		return err
	})
	if err != nil {
		return answer, nil, h.failure(err)
	}
	h.c.tasks.Said(h.c.owner, opentasks.Maker{Peer: h.c.peer}, h.name, h.sealed, answer.JSON, answer.Ended() && h.modern)
	return answer, asked, nil
}

// getTask answers tasks/get.
func (c *connection) getTask(r *request, p *params) (any, error) {
	h, err := c.findTask(r, p)
	if err != nil {
		return nil, err
	}
	answer, asked, err := h.ask(r.ctx)
	if err != nil {
		return nil, err
	}
	return h.state(r.ctx, answer, asked)
}

// state says how the task is. What came of a task of 2025-11-25 is asked for, if the client wants it.
func (h *taskHandle) state(ctx context.Context, answer facade.TaskAnswer, asked *facade.Task) (json.RawMessage, error) {
	var result, failure json.RawMessage
	if h.modern && !answer.Modern && answer.Ended() && answer.State != string(task.Cancelled) {
		var err error
		if result, err = asked.WaitRaw(ctx); err != nil {
			if answer.State != string(task.Failed) || !errors.Is(err, mcpvisor.ErrRPC) {
				return nil, h.failure(err)
			}
			failure, _ = json.Marshal(h.c.protocolError(h.name.Server, err)) // a jsonrpc.Error always marshals
		}
	}
	state := h.text().State(answer.JSON, result, failure)
	if h.modern && !answer.Modern && answer.State == string(task.InputRequired) {
		b := message.OpenObject(state)
		if held := h.hold(h.answers); held != nil {
			b.Add("inputRequests", held.Requests(ctx))
		} else {
			b.Add("inputRequests", []byte("{}"))
		}
		return b.Close(), nil
	}
	return state, nil
}

// updateTask answers tasks/update (2026-07-28).
func (c *connection) updateTask(r *request, p *params) (any, error) {
	if !p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	h, err := c.findTask(r, p)
	if err != nil {
		return nil, err
	}
	rounds := readRounds(r.Params, p)
	if len(rounds.next.InputResponses) == 0 || !rounds.valid() {
		return nil, errInputResponses
	}
	if held := h.c.tasks.WaitingFor(h.c.owner, h.name); held != nil {
		if err := held.Answer(rounds.next.InputResponses); err != nil {
			return nil, err
		}
		return struct{}{}, nil
	}
	err = h.about(r.ctx, func(t *facade.Task) error { return t.Respond(r.ctx, rounds.next.InputResponses) })
	switch {
	case errors.Is(err, mcpvisor.ErrInvalid): // of a server before 2026-07-28, for which no tasks/result waits
		return nil, errNoTaskQuestion
	case err != nil:
		return nil, h.failure(err)
	}
	return struct{}{}, nil
}

// errNoTaskQuestion is the error of answers to what a task does not ask, or no longer.
var errNoTaskQuestion = message.InvalidParams("the answers were not passed on: the task asks for nothing at the moment, or its question was withdrawn because nobody asked about the task for a minute; ask again with tasks/get")

// cancelTask answers tasks/cancel.
func (c *connection) cancelTask(r *request, p *params) (any, error) {
	h, err := c.findTask(r, p)
	if err != nil {
		return nil, err
	}
	canceled := h.about(r.ctx, func(t *facade.Task) error { return t.Cancel(r.ctx) })
	if h.modern && canceled == nil {
		h.forget() // the client may do the same
		return struct{}{}, nil
	}
	if canceled != nil && !errors.Is(canceled, mcpvisor.ErrRPC) {
		return nil, h.failure(canceled)
	}
	answer, asked, err := h.ask(r.ctx) // it has ended, or is not known, or its state is the answer
	switch {
	case err != nil:
		return nil, err
	case answer.Ended() && h.modern:
		return struct{}{}, nil
	case answer.Ended() && answer.State != string(task.Cancelled):
		return nil, message.InvalidParams("the task has ended: it is " + answer.State)
	case canceled != nil:
		return nil, c.protocolError(h.name.Server, canceled)
	}
	h.forget()
	return h.state(r.ctx, answer, asked)
}

// taskResult answers tasks/result (2025-11-25): it waits until the task has ended. Meanwhile the client
// answers what the task asks for.
func (c *connection) taskResult(r *request, p *params) (any, error) {
	if p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	h, err := c.findTask(r, p)
	if err != nil {
		return nil, err
	}
	if h.opts, err = c.callOptions(r, &upstreamRequest{server: h.name.Server}, r.tell); err != nil {
		return nil, err
	}
	c.tasks.Said(c.owner, opentasks.Maker{Peer: c.peer}, h.name, h.sealed, nil, false) // so that questions name it
	t, err := h.find(h.opts...)
	if err != nil {
		return nil, h.failure(err)
	}
	result, err := t.WaitRaw(r.ctx)
	switch {
	case errors.Is(err, mcpvisor.ErrInputRequired), err != nil && r.ctx.Err() != nil:
		return nil, c.protocolError(h.name.Server, err)
	case errors.Is(err, mcpvisor.ErrRPC): // of the call, which has failed
		h.forget()
		return nil, c.protocolError(h.name.Server, err)
	case errors.Is(err, mcpvisor.ErrCrashed):
		h.forget()
		return nil, c.protocolError(h.name.Server, err)
	case err != nil:
		return nil, h.failure(err)
	}
	h.forget()
	return h.text().Result(result), nil
}

// listTasks answers tasks/list (2025-11-25): the tasks of the client that are open, as far as this
// process knows them.
func (c *connection) listTasks(r *request, p *params) (any, error) {
	if p.modern() {
		return nil, message.MethodNotFound(r.Method)
	}
	if err := c.checkTasks(r, p); err != nil {
		return nil, err
	}
	return struct {
		Tasks []opentasks.Summary `json:"tasks"`
	}{c.tasks.List(c.owner, c.tenantKey)}, nil
}

// A client gets a sealed id in place of the id of a server: it has the principal, the server, the
// server's id and an expiry, so another process with the same key can answer for the task.

func (c *connection) taskName(server, id string) opentasks.Name {
	if !c.isCopied(server) {
		return opentasks.Name{Server: server, ID: id}
	}
	return opentasks.Name{Server: server, ID: id, Copy: c.tenantKey}
}

// taskKind is the kind of sealed text that an id is.
const taskKind = "task"

// maxSealedTask bounds an id that is opened, in bytes. It is more than any that sealTask makes.
const maxSealedTask = 4 << 10

// sealTask returns the id of a task for the client.
func (c *connection) sealTask(name opentasks.Name, expiry time.Time) string {
	fields := []string{string(principalDigest(c.owner)), name.Server, name.ID, seal.Time(expiry)}
	if name.Copy != "" {
		fields = append(fields, name.Copy)
	}
	return seal.Seal(c.opts.key, taskKind, fields...)
}

func principalDigest(principal string) []byte {
	sum := sha256.Sum256([]byte(principal))
	return sum[:16]
}

// errUnknownTask does not tell an id of another principal from a forged one.
var errUnknownTask = message.InvalidParams("there is no such task: the id is not one that this client was given")

// openTask returns the task of an id that a client has sent.
func (c *connection) openTask(sealed string) (opentasks.Name, error) {
	if len(sealed) > maxSealedTask {
		return opentasks.Name{}, errUnknownTask
	}
	fields, err := seal.Open(c.opts.key, taskKind, sealed)
	if err != nil || len(fields) < 4 || fields[0] != string(principalDigest(c.owner)) {
		return opentasks.Name{}, errUnknownTask
	}
	if expiry := seal.ReadTime(fields[3]); !time.Now().Before(expiry) {
		return opentasks.Name{}, message.InvalidParams("the id of the task has expired at " + expiry.UTC().Format(time.RFC3339))
	}
	name := c.taskName(fields[1], fields[2])
	if copied := append(fields, "")[4]; name.Copy != copied {
		return opentasks.Name{}, errTaskGone
	}
	return name, nil
}

// A server of 2025-11-25 asks for the input of a task by requests, while tasks/result waits. A client
// since 2026-07-28 reads what a task asks for in the answer to tasks/get, and answers by tasks/update. So
// the gateway keeps a tasks/result waiting while such a client asks for a task that requires input.

// hold has tasks/result wait for a task, unless it does; nil if the client has no place for the task.
// bits is what the client answers.
func (h *taskHandle) hold(bits uint16) *opentasks.Waiting {
	return h.c.tasks.Wait(h.c.owner, h.name, func(ctx context.Context, q *opentasks.Waiting) {
		if t, err := h.find(inputHandlers(q, bits)...); err == nil {
			_, _ = t.WaitRaw(ctx) // the client asks for what came of the task
		}
	})
}

// inputHandlers are the options of tasks/result: who answers. What the client does not answer is left to the
// handlers of the facade.Client.
func inputHandlers(q *opentasks.Waiting, bits uint16) []facade.CallOption {
	answers := capability.Answers(bits)
	if answers == (facade.Declared{}) {
		return nil
	}
	return []facade.CallOption{facade.WithCallHandlers(&facade.CallHandlers{RawAnswers: answers,
		Raw: func(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
			if err := capability.Check(bits, r); err != nil {
				return nil, err
			}
			return q.Ask(ctx, r)
		}})}
}

// sealQuestion returns the params of a question of a server, in which a task is named by the id that the
// client knows. A task that it does not know is not named.
func (c *connection) sealQuestion(r facade.ServerRequest) json.RawMessage {
	return tasktext.Question(r.Params, func(id string) string { return c.tasks.SealedOf(c.owner, c.taskName(r.Server, id)) })
}

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
	c.notify.Watch(c.unwatched != nil) // on a pipe, nothing is reported before notifications/initialized
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
