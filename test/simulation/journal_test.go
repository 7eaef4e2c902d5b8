package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// store is a model of a journal, as one host has it open.
type store struct {
	mcpvisor.JournalLocks
	*files

	began time.Time
	dead  bool // the host was killed: nothing is written any more; guarded by files.mu
	// cross is called at the write that files.armed counts to.
	cross func(action string)
}

// files are what survives the host. Their faults are set by the schedule.
type files struct {
	mu      sync.Mutex // guards all below
	entries map[mcpvisor.JournalKey]mcpvisor.JournalEntry
	slow    time.Duration
	failing string // "", "before" (nothing is written), "after" (it is written, and the writer is told it failed), "full"
	armed   crossing
}

// A crossing is an action at the instant of a write.
type crossing struct {
	action string // of an event; empty: none
	writes int    // how many come first
	after  bool   // it happens after the write
}

// crossLocked runs the action when its write comes. The write of a host that dies before it is lost.
func (s *store) crossLocked(after bool) {
	a := &s.armed
	if a.action == "" || s.dead || a.after != after {
		return
	}
	if a.writes--; a.writes >= 0 {
		return
	}
	action := a.action
	a.action = ""
	s.dead = action == "die"
	s.cross(action)
}

// cut reports whether the host lived before.
func (s *store) cut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lived := !s.dead
	s.dead = true
	return lived
}

func (s *store) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

var errDisk = errors.New("input/output error")

func (s *store) wait(ctx context.Context) (string, error) {
	s.mu.Lock()
	slow, failing := s.slow, s.failing
	s.mu.Unlock()
	if slow > 0 {
		timer := time.NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return failing, context.Cause(ctx)
		}
	}
	return failing, nil
}

func (s *store) Get(ctx context.Context, key mcpvisor.JournalKey) (mcpvisor.JournalEntry, bool, error) {
	if _, err := s.wait(ctx); err != nil {
		return mcpvisor.JournalEntry{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	e.Open = s.Held(key)
	return e, ok, nil
}

func (s *store) Put(ctx context.Context, e mcpvisor.JournalEntry) error {
	failing, err := s.wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.entries[e.JournalKey()]
	s.crossLocked(false)
	switch {
	case err != nil:
		return err
	case failing == "before" || s.dead:
		return errDisk
	case failing == "full" && !known:
		return mcpvisor.ErrJournalFull
	}
	s.entries[e.JournalKey()] = e
	s.crossLocked(true)
	if failing == "after" {
		return errDisk
	}
	return nil
}

func (s *store) Delete(ctx context.Context, key mcpvisor.JournalKey) error {
	failing, err := s.wait(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if failing == "before" || s.dead {
		return errDisk
	}
	delete(s.entries, key)
	if failing == "after" {
		return errDisk
	}
	return nil
}

func (s *store) Entries(context.Context) (all []mcpvisor.JournalEntry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.Arguments, e.Result = nil, nil
		e.Open = s.Open(e.JournalKey())
		all = append(all, e)
	}
	return all, nil
}
