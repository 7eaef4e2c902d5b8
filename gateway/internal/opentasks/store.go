// Package opentasks keeps what a gateway knows of the open tasks of its clients, for tasks/list and for
// the questions of tasks. A Store has them all, and bounds how many one principal has.
package opentasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Name names a task at its server. Origin says which of the tasks with that id it is: the next incarnation
// of the server may use the id again. Copy names the client whose copy of the server has the task, if each
// client has one: different copies may use the same id.
type Name struct{ Server, ID, Origin, Copy string }

// Store has the open tasks of the clients of a gateway. Safe for concurrent use.
type Store struct {
	max  int                                    // tasks of one principal; read only
	hold func(principal string, bytes int) bool // counts questions. Negative bytes are given back. Read only

	mu sync.Mutex // guards the field below, and all that it leads to
	of map[string]*principalTasks
}

// key names a task of an owner (package owner). One of a principal's profiles does not see the tasks of another.
type key struct {
	owner string
	Name
}

// principalTasks are the tasks of one principal.
type principalTasks struct {
	calls   int // in flight that may become tasks
	watches int
	open    map[key]*openTask
}

// openTask is a task that has not ended, as far as the gateway knows.
type openTask struct {
	sealed  string
	used    time.Time // when the client last asked about it
	shown   Summary
	waiting *Waiting      // nil: no tasks/result waits for it
	seen    *clients.Task // the task in the registry of clients
}

// Maker says whose call has become the task, for the registry of clients.
type Maker struct {
	Peer *clients.Client
	Tool string // qualified; empty if it is no longer known
}

// Summary describes a task in tasks/list.
type Summary struct {
	ID        string          `json:"taskId"`
	Status    task.Status     `json:"status"`
	CreatedAt json.RawMessage `json:"createdAt,omitempty"`
	UpdatedAt json.RawMessage `json:"lastUpdatedAt,omitempty"`
	TTL       json.RawMessage `json:"ttl"`
	Poll      json.RawMessage `json:"pollInterval,omitempty"`
}

// taskIdle is how long a task stays open without a request about it, if the principal has as many tasks
// as it may. Later its id is still valid.
const taskIdle = 10 * time.Minute

// New returns a store in which each principal may have most open tasks. hold counts what the principal makes it
// keep, and reports false if there is no room.
func New(most int, hold func(principal string, bytes int) bool) *Store {
	return &Store{max: most, hold: hold, of: map[string]*principalTasks{}}
}

func (s *Store) ofLocked(by string) *principalTasks {
	principal := owner.Principal(by)
	p := s.of[principal]
	if p == nil {
		p = &principalTasks{open: map[key]*openTask{}}
		s.of[principal] = p
	}
	return p
}

// tidyLocked forgets the principal of an owner if it has no tasks.
func (s *Store) tidyLocked(by string, p *principalTasks) {
	if p.calls+p.watches+len(p.open) == 0 {
		delete(s.of, owner.Principal(by))
	}
}

// findLocked returns an open task; nil without one.
func (s *Store) findLocked(by string, name Name) *openTask {
	if p := s.of[owner.Principal(by)]; p != nil {
		return p.open[key{by, name}]
	}
	return nil
}

// hasRoomLocked reports whether the principal may have one more task. If it has too many, it first
// forgets tasks that have ended, and tasks without a request for taskIdle.
func (s *Store) hasRoomLocked(p *principalTasks, now time.Time) bool {
	if p.calls+len(p.open) >= s.max {
		for name, one := range p.open {
			if now.Sub(one.used) > taskIdle || one.shown.Status.Final() {
				p.forgetLocked(name)
			}
		}
	}
	return p.calls+len(p.open) < s.max
}

// Reserve counts a call that may become a task.
func (s *Store) Reserve(by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ofLocked(by)
	defer s.tidyLocked(by, p)
	if !s.hasRoomLocked(p, time.Now()) {
		return &jsonrpc.Error{Code: message.CodeBusy, Message: fmt.Sprintf("%d tasks are open, which is the most; wait until some have ended, or cancel them. Nothing was sent.", len(p.open))}
	}
	p.calls++
	return nil
}

// Release ends what Reserve began.
func (s *Store) Release(by string) { s.change(by, func(p *principalTasks) { p.calls-- }) }

// change calls f with the tasks of the principal of an owner, if it has any.
func (s *Store) change(by string, f func(p *principalTasks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.of[owner.Principal(by)]; p != nil {
		f(p)
		s.tidyLocked(by, p)
	}
}

// Said records what a server has said about a task that the client knows as sealed. text is what the
// server has said; nil: nothing new.
func (s *Store) Said(by string, made Maker, name Name, sealed string, text []byte, ended bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ofLocked(by)
	defer s.tidyLocked(by, p)
	one := p.open[key{by, name}]
	switch {
	case ended:
		p.forgetLocked(key{by, name})
		return
	case one == nil && !s.hasRoomLocked(p, now) && len(p.open) >= s.max: // of an earlier process; its id is valid
		return
	case one == nil:
		_, tool, _ := mcpvisor.SplitName(made.Tool)
		one = &openTask{sealed: sealed, seen: made.Peer.OpenTask(name.Server, tool), shown: Summary{ID: sealed, Status: task.Working, TTL: json.RawMessage("null")}}
		p.open[key{by, name}] = one
	}
	one.used = now
	if text != nil {
		one.shown.read(text, true)
		one.seen.SetState(string(one.shown.Status))
	}
}

// maxSummaryBytes bounds a member of a summary.
const maxSummaryBytes = 64

// read keeps what a server says about a task. Only the outermost object may have the task in it.
func (s *Summary) read(text []byte, outermost bool) {
	_ = jsonscan.EachMember(text, func(key string, value []byte) (err error) {
		keep := json.RawMessage(nil)
		if len(value) <= maxSummaryBytes && value[0] != '{' && value[0] != '[' {
			keep = slices.Clone(value)
		}
		switch key {
		case "task": // the answer to a call, in 2025-11-25
			if outermost && value[0] == '{' {
				s.read(value, false)
			}
		case "status":
			if status, err := jsonscan.ReadString(value); err == nil && len(status) <= maxSummaryBytes {
				s.Status = task.Status(strings.Clone(status))
			}
		case "createdAt":
			s.CreatedAt = keep
		case "lastUpdatedAt":
			s.UpdatedAt = keep
		case "ttl", "ttlMs":
			if s.TTL = keep; keep == nil {
				s.TTL = json.RawMessage("null")
			}
		case "pollInterval", "pollIntervalMs":
			s.Poll = keep
		}
		return nil
	})
}

// List returns the open tasks of an owner, sorted by their creation as far as that is known. Tasks of
// copies are included only if they are of this tenant.
func (s *Store) List(by string, tenants ...string) []Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Summary{}
	if p := s.of[owner.Principal(by)]; p != nil {
		for name, one := range p.open {
			if name.owner == by && (name.Copy == "" || slices.Contains(tenants, name.Copy)) {
				all = append(all, one.shown)
			}
		}
	}
	slices.SortFunc(all, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(string(a.CreatedAt), string(b.CreatedAt)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// ForgetCopies forgets the tasks of the copies of one tenant, which have ended.
func (s *Store) ForgetCopies(by, tenant string) {
	s.change(by, func(p *principalTasks) {
		for name := range p.open {
			if name.owner == by && name.Copy == tenant {
				p.forgetLocked(name)
			}
		}
	})
}

// SealedOf returns the id by which the client knows the task of a question, in which a server names no
// origin; empty if it is not open, or one of several with the id.
func (s *Store) SealedOf(by string, name Name) (sealed string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.of[owner.Principal(by)]; p != nil {
		for other, one := range p.open {
			if other.Origin = ""; other == (key{by, name}) {
				if sealed != "" {
					return ""
				}
				sealed = one.sealed
			}
		}
	}
	return sealed
}

// Watch counts a watch of a task of the principal, and reports false if there are too many: it may have
// as many watches as tasks.
func (s *Store) Watch(by string) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ofLocked(by)
	defer s.tidyLocked(by, p)
	if p.watches >= s.max {
		return false
	}
	p.watches++
	return true
}

// Unwatch ends what Watch began.
func (s *Store) Unwatch(by string) { s.change(by, func(p *principalTasks) { p.watches-- }) }

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

// Ask keeps a question until it is answered or withdrawn, and returns the answer. Until then it counts for the principal.
func (w *Waiting) Ask(ctx context.Context, r relay.ServerRequest) (json.RawMessage, error) {
	var b jsonscan.Object
	b.Add("method", jsonscan.Quote(r.Method))
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
	var b jsonscan.Object
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
