// Package opentasks keeps what a gateway knows of the tasks that its clients have open: it bounds how many a
// principal has, and is what tasks/list lists.
package opentasks

import (
	"cmp"
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
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// Name names a task at its server. copy names the client that has a copy of the
// server, if each has one: copies may give the same id to several tasks.
type Name struct{ Server, ID, Copy string }

// Store are the tasks that the clients of a gateway have open. Safe for concurrent use.
type Store struct {
	max int // of one principal

	mu sync.Mutex
	of map[string]*principalTasks
}

// principalTasks are those of one principal.
type principalTasks struct {
	calls   int // in flight, of which tasks may be made
	watches int
	open    map[Name]*openTask
}

// openTask is a task that has not ended, as far as it is known.
type openTask struct {
	sealed  string
	used    time.Time // when the client last said something about it
	shown   Summary
	waiting *Waiting // nil: no tasks/result waits for it
	seen    *clients.Task
}

// Maker is who has made a task, for those who look at the gateway.
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

// taskIdle is how long a task counts as open without a request about it, if the place is needed for
// another one. Its id stays valid.
const taskIdle = 10 * time.Minute

// New returns a store in which each principal may have as many open tasks.
func New(most int) *Store {
	return &Store{max: most, of: map[string]*principalTasks{}}
}

func (h *Store) ofLocked(principal string) *principalTasks {
	p := h.of[principal]
	if p == nil {
		p = &principalTasks{open: map[Name]*openTask{}}
		h.of[principal] = p
	}
	return p
}

// tidyLocked forgets a principal without tasks.
func (h *Store) tidyLocked(principal string, p *principalTasks) {
	if p.calls+p.watches+len(p.open) == 0 {
		delete(h.of, principal)
	}
}

// hasRoomLocked reports whether the principal may have one more task. To make room it forgets those
// that have ended, and those that nobody has asked for.
func (h *Store) hasRoomLocked(p *principalTasks, now time.Time) bool {
	if p.calls+len(p.open) >= h.max {
		for name, one := range p.open {
			if now.Sub(one.used) > taskIdle || one.shown.Status.Final() {
				p.forgetLocked(name)
			}
		}
	}
	return p.calls+len(p.open) < h.max
}

// Reserve takes a place for a call of which a task may be made.
func (h *Store) Reserve(principal string) error {
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

// Release gives the place back.
func (h *Store) Release(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil {
		p.calls--
		h.tidyLocked(principal, p)
	}
}

// Said notes what a server has said about a task whose id the client knows as sealed. text is what it
// has said; nil for nothing new.
func (h *Store) Said(principal string, by Maker, name Name, sealed string, text []byte, ended bool) {
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
		_, tool, _ := mcpvisor.SplitName(by.Tool)
		one = &openTask{sealed: sealed, seen: by.Peer.OpenTask(name.Server, tool), shown: Summary{ID: sealed, Status: task.Working, TTL: json.RawMessage("null")}}
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
func (s *Summary) read(text []byte) {
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

// List returns the open tasks of a principal, sorted by when they were made as far as that is known; of
// copies only those of one tenant.
func (h *Store) List(principal, tenant string) []Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []Summary{}
	if p := h.of[principal]; p != nil {
		for name, one := range p.open {
			if name.Copy == "" || name.Copy == tenant {
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
func (h *Store) ForgetCopies(principal, tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of[principal]
	if p == nil {
		return
	}
	for name := range p.open {
		if name.Copy == tenant {
			p.forgetLocked(name)
		}
	}
	h.tidyLocked(principal, p)
}

// SealedOf returns the id that the client knows a task by; empty if it is not open.
func (h *Store) SealedOf(principal string, name Name) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil && p.open[name] != nil {
		return p.open[name].sealed
	}
	return ""
}

// Watch takes one of the watches of a principal, of which it has as many as tasks.
func (h *Store) Watch(principal string) (taken bool) {
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

// Unwatch gives it back.
func (h *Store) Unwatch(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.of[principal]; p != nil {
		p.watches--
		h.tidyLocked(principal, p)
	}
}
