package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// A client gets a sealed id in place of the id of a server: it has the principal, the server, the
// server's id and an expiry, so another process with the same key can answer for the task. What is
// kept of open tasks bounds how many a principal has, and is what tasks/list lists.

// taskName names a task at its server. copy is tenant.key if the server runs once for each client: its
// copies may give the same id to several tasks.
type taskName struct{ server, id, copy string }

func (c *connection) taskName(server, id string) taskName {
	if !c.isCopied(server) {
		return taskName{server: server, id: id}
	}
	return taskName{server, id, c.tenantKey}
}

// taskKind is the kind of sealed text that an id is.
const taskKind = "task"

// maxSealedTask bounds an id that is opened, in bytes. It is more than any that sealTask makes.
const maxSealedTask = 4 << 10

// sealTask returns the id of a task for the client.
func (c *connection) sealTask(name taskName, expiry time.Time) string {
	fields := []string{string(principalDigest(c.owner)), name.server, name.id, seal.Time(expiry)}
	if name.copy != "" {
		fields = append(fields, name.copy)
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
func (c *connection) openTask(sealed string) (taskName, error) {
	if len(sealed) > maxSealedTask {
		return taskName{}, errUnknownTask
	}
	fields, err := seal.Open(c.opts.key, taskKind, sealed)
	if err != nil || len(fields) < 4 || fields[0] != string(principalDigest(c.owner)) {
		return taskName{}, errUnknownTask
	}
	if expiry := seal.ReadTime(fields[3]); !time.Now().Before(expiry) {
		return taskName{}, message.InvalidParams("the id of the task has expired at " + expiry.UTC().Format(time.RFC3339))
	}
	name := c.taskName(fields[1], fields[2])
	if copied := append(fields, "")[4]; name.copy != copied {
		return taskName{}, errTaskGone
	}
	return name, nil
}

// taskHandles are the tasks that the clients of a gateway have open. Safe for concurrent use.
type taskHandles struct {
	max int // of one principal

	mu sync.Mutex
	of map[string]*principalTasks
}

// principalTasks are those of one principal.
type principalTasks struct {
	calls   int // in flight, of which tasks may be made
	watches int
	open    map[taskName]*openTask
}

// openTask is a task that has not ended, as far as it is known.
type openTask struct {
	sealed string
	used   time.Time // when the client last said something about it
	shown  taskSummary
	held   *heldTask // nil: no tasks/result waits for it
	seen   *clients.Task
}

// taskMaker is who has made a task, for those who look at the gateway.
type taskMaker struct {
	peer *clients.Client
	tool string // qualified; empty if it is not known any more
}

// taskSummary is what tasks/list says about a task.
type taskSummary struct {
	ID        string          `json:"taskId"`
	Status    task.Status     `json:"status"`
	CreatedAt json.RawMessage `json:"createdAt,omitempty"`
	UpdatedAt json.RawMessage `json:"lastUpdatedAt,omitempty"`
	TTL       json.RawMessage `json:"ttl"`
	Poll      json.RawMessage `json:"pollInterval,omitempty"`
}

// taskIdle is how long a task counts as open without a request about it, if the place is needed for
// another one. Its id stays valid.
const taskIdle = 10 * time.Minute

func newTaskHandles(most int) *taskHandles {
	return &taskHandles{max: most, of: map[string]*principalTasks{}}
}

func (h *taskHandles) ofLocked(principal string) *principalTasks {
	p := h.of[principal]
	if p == nil {
		p = &principalTasks{open: map[taskName]*openTask{}}
		h.of[principal] = p
	}
	return p
}

// tidyLocked forgets a principal without tasks.
func (h *taskHandles) tidyLocked(principal string, p *principalTasks) {
	if p.calls+p.watches+len(p.open) == 0 {
		delete(h.of, principal)
	}
}

// hasRoomLocked reports whether the principal may have one more task. To make room it forgets those
// that have ended, and those that nobody has asked for.
func (h *taskHandles) hasRoomLocked(p *principalTasks, now time.Time) bool {
	if p.calls+len(p.open) >= h.max {
		for name, one := range p.open {
			if now.Sub(one.used) > taskIdle || one.shown.Status.Final() {
				p.forgetLocked(name)
			}
		}
	}
	return p.calls+len(p.open) < h.max
}

// reserve takes a place for a call of which a task may be made.
func (h *taskHandles) reserve(principal string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ofLocked(principal)
	defer h.tidyLocked(principal, p)
	if !h.hasRoomLocked(p, time.Now()) {
		return &jsonrpc.Error{Code: message.CodeBusy, Message: fmt.Sprintf("%d tasks are open, which is the most; wait until some have ended, or cancel them. Nothing was sent.", len(p.open))}
	}
	p.calls++
	return nil
}

// release gives the place back.
func (h *taskHandles) release(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil {
		p.calls--
		h.tidyLocked(principal, p)
	}
}

// said notes what a server has said about a task whose id the client knows as sealed. text is what it
// has said; nil for nothing new.
func (h *taskHandles) said(principal string, by taskMaker, name taskName, sealed string, text []byte, ended bool) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ofLocked(principal)
	defer h.tidyLocked(principal, p)
	one := p.open[name]
	switch {
	case ended:
		p.forgetLocked(name)
		return
	case one == nil && !h.hasRoomLocked(p, now) && len(p.open) >= h.max: // from an earlier process; its id works
		return
	case one == nil:
		_, tool, _ := mcpvisor.SplitName(by.tool)
		one = &openTask{sealed: sealed, seen: by.peer.OpenTask(name.server, tool), shown: taskSummary{ID: sealed, Status: task.Working, TTL: json.RawMessage("null")}}
		p.open[name] = one
	}
	one.used = now
	if text != nil {
		one.shown.read(text)
		one.seen.SetState(string(one.shown.Status))
	}
}

// maxSummaryBytes bounds a member of a summary.
const maxSummaryBytes = 64

// read keeps what a server says about a task.
func (s *taskSummary) read(text []byte) {
	_ = jsonscan.EachMember(text, func(key string, value []byte) (err error) {
		keep := json.RawMessage(nil)
		if len(value) <= maxSummaryBytes && value[0] != '{' && value[0] != '[' {
			keep = slices.Clone(value)
		}
		switch key {
		case "task": // the answer to a call, in 2025-11-25
			if value[0] == '{' {
				s.read(value)
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

// list returns the open tasks of a principal, sorted by when they were made as far as that is known; of
// copies only those of one tenant.
func (h *taskHandles) list(principal, tenant string) []taskSummary {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []taskSummary{}
	if p := h.of[principal]; p != nil {
		for name, one := range p.open {
			if name.copy == "" || name.copy == tenant {
				all = append(all, one.shown)
			}
		}
	}
	slices.SortFunc(all, func(a, b taskSummary) int {
		return cmp.Or(cmp.Compare(string(a.CreatedAt), string(b.CreatedAt)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// forgetCopies forgets the tasks of the copies of one tenant, which have ended.
func (h *taskHandles) forgetCopies(principal, tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[principal]
	if p == nil {
		return
	}
	for name := range p.open {
		if name.copy == tenant {
			p.forgetLocked(name)
		}
	}
	h.tidyLocked(principal, p)
}

// sealedOf returns the id that the client knows a task by; empty if it is not open.
func (h *taskHandles) sealedOf(principal string, name taskName) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil && p.open[name] != nil {
		return p.open[name].sealed
	}
	return ""
}

// watch takes one of the watches of a principal, of which it has as many as tasks.
func (h *taskHandles) watch(principal string) (taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ofLocked(principal)
	defer h.tidyLocked(principal, p)
	if p.watches >= h.max {
		return false
	}
	p.watches++
	return true
}

// unwatch gives it back.
func (h *taskHandles) unwatch(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil {
		p.watches--
		h.tidyLocked(principal, p)
	}
}
