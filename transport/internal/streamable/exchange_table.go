package streamable

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// exchangeTable are the exchanges under way on one session. Its death ends them, and
// one timer keeps all their deadlines: a timer and three derived contexts for
// each call would cost more than the rest of the call.
type exchangeTable struct {
	mu       sync.Mutex
	open     map[int64]*tableRow
	ids      jsonrpc.RequestIDs
	lastKey  int64 // of the keys that are no ids: negative, going down
	endCause error
	alarm    jsonrpc.DeadlineTimer
	buffer   *budget.Budget // of the server; set before use
}

// tableRow is what the table keeps of one exchange. Guarded by the table's mutex,
// except for key, progress and owner, which never change.
type tableRow struct {
	key      int64     // the id of the request, or a negative number
	deadline time.Time // zero: none
	clocks   jsonrpc.Clocks
	progress *jsonrpc.ProgressQueue
	// clockStopped: the deadline does not count any more, or it has passed.
	clockStopped bool
	// owner is told the end of the session and of the deadline, without the mutex.
	owner interface{ end(err, cause error) }
}

// add enters an exchange into the table, and assigns its key: for a request an id
// that no other exchange has, for anything else a negative number. It returns why
// the session has ended, if it has.
func (s *exchangeTable) add(row *tableRow, request bool, r transport.Request) (ended error) {
	row.deadline = row.clocks.Start(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	row.key = s.keyLocked(request)
	if s.endCause != nil {
		return s.endCause
	}
	if s.open == nil {
		s.open = make(map[int64]*tableRow)
		s.alarm.OnFire = s.sweep
	}
	s.open[row.key] = row
	if !row.deadline.IsZero() {
		s.alarm.Set(row.deadline)
	}
	return nil
}

// keyLocked is the key of a new exchange: for a request an id that no other
// exchange has, for anything else a negative number.
func (s *exchangeTable) keyLocked(request bool) int64 {
	if !request {
		s.lastKey--
		return s.lastKey
	}
	for {
		if id, used := s.ids.Next(); !used || s.open[id] == nil {
			return id
		}
	}
}

// endAll ends every exchange, now and from now on. An exchange that has ended is
// in the set until it is finished: the answer may have come already, and what
// came before it belongs to it.
func (s *exchangeTable) endAll(cause error) {
	s.mu.Lock()
	s.endCause = cause
	open := slices.Collect(maps.Values(s.open))
	s.alarm.Stop()
	s.mu.Unlock()
	for _, b := range open {
		b.owner.end(context.Canceled, cause)
	}
}

// stopClock makes the deadline of an exchange count no more.
func (s *exchangeTable) stopClock(b *tableRow) {
	s.mu.Lock()
	b.clockStopped = true
	s.mu.Unlock()
}

func (s *exchangeTable) remove(b *tableRow) {
	s.mu.Lock()
	delete(s.open, b.key)
	s.mu.Unlock()
}

// progressed restarts the clock of a request, and returns who wants to hear of
// it, if anybody does.
func (s *exchangeTable) progressed(id int64) (to *jsonrpc.ProgressQueue, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[id]
	if b == nil || id <= 0 {
		return nil, false
	}
	if !b.deadline.IsZero() {
		b.deadline = b.clocks.Progressed(time.Now())
	}
	return b.progress, true
}

// sweep ends what is overdue.
func (s *exchangeTable) sweep() {
	now := time.Now()
	var overdue []*tableRow
	s.mu.Lock()
	s.alarm.Fired()
	var next time.Time
	for _, b := range s.open {
		switch {
		case b.deadline.IsZero(), b.clockStopped:
		case !b.deadline.After(now):
			overdue = append(overdue, b)
			b.clockStopped = true
		case next.IsZero() || b.deadline.Before(next):
			next = b.deadline
		}
	}
	s.alarm.Rearm(now, next)
	s.mu.Unlock()
	for _, b := range overdue {
		b.owner.end(context.DeadlineExceeded, jsonrpc.ErrOverdue)
	}
}

// CountRequest implements callClocks.
func (s *exchangeTable) CountRequest(call int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed, calls := false, 0
	for _, b := range s.callsLocked(call) {
		calls++
		allowed = b.clocks.CountRequest() || allowed
	}
	return allowed || calls == 0
}

// PauseClocks implements callClocks.
func (s *exchangeTable) PauseClocks(call int64) (restart func(answered bool)) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.callsLocked(call)
	for _, b := range calls {
		b.deadline = b.clocks.Pause(b.deadline, now)
	}
	return func(answered bool) {
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range calls {
			if b.deadline = b.clocks.Resume(answered, now); !b.deadline.IsZero() && s.open[b.key] == b && s.endCause == nil {
				s.alarm.Set(b.deadline)
			}
		}
	}
}

// callsLocked are the calls that a request of the server's may belong to.
func (s *exchangeTable) callsLocked(call int64) (calls []*tableRow) {
	if call > 0 {
		if b := s.open[call]; b != nil {
			calls = append(calls, b)
		}
		return calls
	}
	for key, b := range s.open {
		if key > 0 {
			calls = append(calls, b)
		}
	}
	return calls
}
