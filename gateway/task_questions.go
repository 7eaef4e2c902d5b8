package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A server of 2025-11-25 asks for the input of a task by requests, while tasks/result waits. A client
// since 2026-07-28 reads what a task asks for in the answer to tasks/get, and answers by tasks/update. So
// the gateway keeps a tasks/result waiting while such a client asks for a task that requires input.

// Bounds of what one task asks for at once. The length of the params is in bytes.
const (
	maxTaskQuestions     = 8
	maxTaskQuestionBytes = 16 << 10
)

// holdIdle is how long tasks/result waits without a request about the task.
const holdIdle = time.Minute

// firstQuestionWait is how long the first tasks/get waits for the question, so that the client need not
// ask again.
const firstQuestionWait = 500 * time.Millisecond

// heldTask is a tasks/result that waits. Safe for concurrent use.
type heldTask struct {
	cancel context.CancelFunc
	idle   *time.Timer
	asked  chan struct{} // gets an element when a question comes

	mu     sync.Mutex
	prefix string // of the keys, which are never used again, by another process neither
	n      int
	open   map[string]*taskQuestion
}

// taskQuestion is a request of the server that waits for tasks/update.
type taskQuestion struct {
	text   json.RawMessage
	answer chan json.RawMessage // has room for one
}

// hold has tasks/result wait for a task, unless it does; nil if the client has no place for the task.
// bits is what the client answers.
func (h *taskHandle) hold(bits uint16) *heldTask {
	all := h.c.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	p := all.of[h.c.owner]
	if p == nil || p.open[h.name] == nil {
		return nil
	}
	one := p.open[h.name]
	if one.held != nil {
		one.held.idle.Reset(holdIdle)
		return one.held
	}
	ctx, cancel := context.WithCancel(context.Background())
	q := &heldTask{cancel: cancel, asked: make(chan struct{}, 1), prefix: rand.Text()[:8] + "-", open: map[string]*taskQuestion{}}
	q.idle = time.AfterFunc(holdIdle, cancel)
	one.held = q
	go func() {
		defer q.idle.Stop()
		defer cancel()
		t, err := h.find(q.handlers(bits)...)
		if err == nil {
			_, _ = t.WaitRaw(ctx) // the client asks for what came of the task
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		if one.held == q {
			one.held = nil
		}
	}()
	return q
}

// handlers are the options of tasks/result: who answers. What the client does not answer is left to the
// handlers of the facade.Client.
func (q *heldTask) handlers(bits uint16) []facade.CallOption {
	answers := capability.Answers(bits)
	if answers == (facade.Declared{}) {
		return nil
	}
	return []facade.CallOption{facade.WithCallHandlers(&facade.CallHandlers{RawAnswers: answers,
		Raw: func(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
			if err := capability.Check(bits, r); err != nil {
				return nil, err
			}
			return q.ask(ctx, r)
		}})}
}

var errTooManyQuestions = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the task asks for too much at once; nobody was asked"}

// ask keeps a question until it is answered.
func (q *heldTask) ask(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	var b message.Object
	b.Add("method", message.JSON(r.Method))
	if len(r.Params) > 0 {
		b.Add("params", tasktext.Text{Modern: true}.Result(r.Params))
	}
	one := &taskQuestion{text: b.Close(), answer: make(chan json.RawMessage, 1)}
	q.mu.Lock()
	if len(q.open) == maxTaskQuestions || len(one.text) > maxTaskQuestionBytes {
		q.mu.Unlock()
		return nil, errTooManyQuestions
	}
	q.n++
	key := q.prefix + strconv.Itoa(q.n)
	q.open[key] = one
	q.mu.Unlock()
	select {
	case q.asked <- struct{}{}:
	default:
	}
	select {
	case text := <-one.answer:
		return text, nil
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, key)
		return nil, ctx.Err()
	}
}

// requests are the questions that wait, by their keys.
func (q *heldTask) requests(ctx context.Context) json.RawMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.open) == 0 && q.n == 0 {
		q.mu.Unlock()
		timer := time.NewTimer(firstQuestionWait)
		select {
		case <-q.asked:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		q.mu.Lock()
	}
	var b message.Object
	for key, one := range q.open {
		b.Add(key, one.text)
	}
	return b.Close()
}

// answer passes answers on; those of other keys are ignored.
func (q *heldTask) answer(responses json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = jsonscan.EachMember(responses, func(key string, value []byte) error { // it is an object
		if one := q.open[key]; one != nil {
			delete(q.open, key)
			one.answer <- append(json.RawMessage(nil), value...)
		}
		return nil
	})
}

// heldOf returns the tasks/result that waits for a task; nil if none does.
func (h *taskHandle) heldOf() *heldTask {
	all := h.c.tasks
	all.mu.Lock()
	defer all.mu.Unlock()
	if p := all.of[h.c.owner]; p != nil && p.open[h.name] != nil {
		return p.open[h.name].held
	}
	return nil
}

// stopHolding ends all that wait.
func (h *taskHandles) stopHolding() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.of {
		for _, one := range p.open {
			if one.held != nil {
				one.held.cancel()
			}
		}
	}
}

// forgetLocked removes a task that is not open any more.
func (p *principalTasks) forgetLocked(name taskName) {
	if one := p.open[name]; one != nil {
		one.seen.End()
		if one.held != nil {
			one.held.cancel()
		}
	}
	delete(p.open, name)
}

// sealQuestion returns the params of a question of a server, in which a task is named by the id that the
// client knows. A task that it does not know is not named.
func (c *connection) sealQuestion(r facade.ServerRequest) json.RawMessage {
	return tasktext.Question(r.Params, func(id string) string { return c.tasks.sealedOf(c.owner, c.taskName(r.Server, id)) })
}
