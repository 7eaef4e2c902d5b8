package opentasks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// Bounds of the open questions of one task: their number, and the bytes of each.
const (
	maxQuestions     = 8
	maxQuestionBytes = 16 << 10
	// questionCost is what a question takes in addition to its text, in bytes.
	questionCost = 4 << 10
)

// waitIdle is how long tasks/result keeps waiting without a request about the task.
const waitIdle = time.Minute

// firstQuestionWait is how long the first tasks/get waits for a question, so that the client need not
// ask again.
const firstQuestionWait = 500 * time.Millisecond

// Waiting is a tasks/result that waits for the end of a task, with the open questions of the task. Safe
// for concurrent use.
type Waiting struct {
	cancel context.CancelFunc
	idle   *overdue.Timer
	asked  chan struct{} // gets an element when a question comes
	hold   func(bytes int) bool

	mu     sync.Mutex // guards the fields below
	prefix string     // of the keys of questions; random, so that no key is used again
	n      int        // number of questions so far
	open   map[string]*question
}

// question is a request of the server that waits for its answer in tasks/update.
type question struct {
	text   json.RawMessage
	answer chan json.RawMessage // has room for one
}

var errTooMany = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the task asks for too much at once, or too much is kept for its client; no client was asked"}

// Ask keeps a question until it is answered or withdrawn, and returns the answer. So long it counts for the principal.
func (w *Waiting) Ask(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	var b message.Object
	b.Add("method", message.JSON(r.Method))
	if len(r.Params) > 0 {
		b.Add("params", tasktext.Text{Modern: true}.Result(r.Params))
	}
	one := &question{text: b.Close(), answer: make(chan json.RawMessage, 1)}
	if !w.hold(questionCost + len(one.text)) {
		return nil, errTooMany
	}
	defer w.hold(-questionCost - len(one.text))
	w.mu.Lock()
	if len(w.open) == maxQuestions || len(one.text) > maxQuestionBytes {
		w.mu.Unlock()
		return nil, errTooMany
	}
	w.n++
	key := w.prefix + strconv.Itoa(w.n)
	w.open[key] = one
	w.mu.Unlock()
	select {
	case w.asked <- struct{}{}:
	default:
	}
	select {
	case text := <-one.answer:
		return text, nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, key)
		return nil, ctx.Err()
	}
}

// Requests returns the open questions, by their keys.
func (w *Waiting) Requests(ctx context.Context) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 && w.n == 0 {
		w.mu.Unlock()
		timer := time.NewTimer(firstQuestionWait)
		select {
		case <-w.asked:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		w.mu.Lock()
	}
	var b message.Object
	for key, one := range w.open {
		b.Add(key, one.text)
	}
	return b.Close()
}

// Answer passes answers on to the server. Answers with unknown keys are ignored. If an answer is not an
// object, Answer passes none on, and returns an error.
func (w *Waiting) Answer(responses json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := map[string]json.RawMessage{}
	err := jsonscan.EachMember(responses, func(key string, value []byte) error {
		switch {
		case w.open[key] == nil:
		case value[0] != '{':
			return message.NotAnAnswer(key)
		default:
			answers[key] = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, value := range answers {
		w.open[key].answer <- append(json.RawMessage(nil), value...)
		delete(w.open, key)
	}
	return nil
}

// Wait returns the tasks/result that waits for a task; nil if the task is not open. If none waits, Wait
// begins one: it calls wait in a goroutine, with a context that ends when Wait was not called for the
// task for waitIdle.
func (s *Store) Wait(by string, name Name, wait func(context.Context, *Waiting)) *Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.findLocked(by, name)
	if one == nil {
		return nil
	}
	if one.waiting != nil {
		one.waiting.idle.Reset(waitIdle)
		return one.waiting
	}
	ctx, cancel := context.WithCancel(context.Background())
	q := newWaiting(rand.Text()[:8]+"-", cancel, func(bytes int) bool { return s.hold(owner.Principal(by), bytes) })
	one.waiting = q
	go func() {
		defer q.idle.Stop()
		defer cancel()
		wait(ctx, q)
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.waiting == q {
			one.waiting = nil
		}
	}()
	return q
}

func newWaiting(prefix string, cancel context.CancelFunc, hold func(bytes int) bool) *Waiting {
	return &Waiting{cancel: cancel, hold: hold, idle: overdue.AfterFunc(waitIdle, cancel), asked: make(chan struct{}, 1), prefix: prefix, open: map[string]*question{}}
}

// WaitingFor returns the tasks/result that waits for a task; nil if none does.
func (s *Store) WaitingFor(by string, name Name) *Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.findLocked(by, name); one != nil {
		return one.waiting
	}
	return nil
}

// StopWaiting ends all waiting tasks/result.
func (s *Store) StopWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.of {
		for _, one := range p.open {
			if one.waiting != nil {
				one.waiting.cancel()
			}
		}
	}
}

// forgetLocked removes a task that is no longer open.
func (p *principalTasks) forgetLocked(name key) {
	if one := p.open[name]; one != nil {
		one.seen.End()
		if one.waiting != nil {
			one.waiting.cancel()
		}
	}
	delete(p.open, name)
}
