package transport

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// errOverdue is why an exchange ended whose own time was up. It is a value of
// its own because the cause of somebody's context may well be an ErrTimeout.
var errOverdue = fmt.Errorf("call: %w", mcpvisor.ErrTimeout)

// exchangeTable are the exchanges under way on one session. Its death ends them, and
// one timer keeps all their deadlines: a timer and three derived contexts for
// each call would cost more than the rest of the call.
type exchangeTable struct {
	mu       sync.Mutex
	open     map[int64]*exchange
	ids      requestIDs
	lastKey  int64 // of the keys that are no ids: negative, going down
	endCause error
	alarm    alarm
	buffer   *budget.Budget // of the server; set before use
}

// exchange is the context of one exchange. It ends with its parent, with its
// session, at its deadline, or when it is finished, whichever is first. Cause
// says which it was; context.Cause cannot, for a context that is not its own.
type exchange struct {
	context.Context // the parent: its values and its deadline
	table           *exchangeTable
	trace           httptrace.ClientTrace
	connected       atomic.Bool // there was a connection: something may have been sent
	connReused      atomic.Bool // that connection had been in use before
	conn            atomic.Pointer[trackedConn]
	writtenBefore   atomic.Int64 // what had been written to conn before
	key             int64        // in the set: the id of the request, or a negative number
	deadline        time.Time    // zero: none; with the set's lock
	clocks          clocks
	progress        *news
	clockStopped    bool // the deadline counts no more, or it has passed; with the set's lock
	done            chan struct{}
	stopFollowing   func() bool // of the parent; nil if it never ends

	// share is what a large reply holds of Limits.Buffer. It belongs to whoever
	// runs the exchange.
	share budget.Share

	mu         sync.Mutex
	err        error
	cause      error
	afterFuncs []*func()
	detached   bool
}

// start begins an exchange without a request of ours. finish must be called.
func (s *exchangeTable) start(parent context.Context, timeout time.Duration) *exchange {
	return s.startAs(parent, false, Request{Timeout: timeout})
}

// startRequest begins the exchange of a request of the call lane, and assigns its
// id, which is the key. finish must be called.
func (s *exchangeTable) startRequest(parent context.Context, r Request) *exchange {
	return s.startAs(parent, true, r)
}

func (s *exchangeTable) startAs(parent context.Context, request bool, r Request) *exchange {
	b := &exchange{table: s, share: s.buffer.Share(), done: make(chan struct{}), progress: newNews(r.Progress)}
	b.trace.GotConn = b.gotConn
	b.Context = httptrace.WithClientTrace(guard.Trace(parent), &b.trace)
	b.deadline = b.clocks.start(r)
	s.mu.Lock()
	b.key = s.keyLocked(request)
	ended := s.endCause
	if ended == nil {
		if s.open == nil {
			s.open = make(map[int64]*exchange)
			s.alarm.ring = s.sweep
		}
		s.open[b.key] = b
		if !b.deadline.IsZero() {
			s.alarm.set(b.deadline)
		}
	}
	s.mu.Unlock()
	if ended != nil {
		b.cancel(context.Canceled, ended)
		return b
	}
	if parent.Done() != nil {
		b.stopFollowing = context.AfterFunc(parent, func() { b.cancel(parent.Err(), context.Cause(parent)) })
	}
	return b
}

// keyLocked is the key of a new exchange: for a request an id that no other
// exchange has, for anything else a negative number.
func (s *exchangeTable) keyLocked(request bool) int64 {
	if !request {
		s.lastKey--
		return s.lastKey
	}
	for {
		if id, used := s.ids.next(); !used || s.open[id] == nil {
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
	s.alarm.stop()
	s.mu.Unlock()
	for _, b := range open {
		b.cancel(context.Canceled, cause)
	}
}

func (s *exchangeTable) remove(b *exchange) {
	s.mu.Lock()
	delete(s.open, b.key)
	s.mu.Unlock()
}

// progressed restarts the clock of a request, and returns who wants to hear of
// it, if anybody does.
func (s *exchangeTable) progressed(id int64) (to *news, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[id]
	if b == nil || id <= 0 {
		return nil, false
	}
	if !b.deadline.IsZero() {
		b.deadline = b.clocks.next(time.Now())
	}
	return b.progress, true
}

// sweep ends what is overdue.
func (s *exchangeTable) sweep() {
	now := time.Now()
	var overdue []*exchange
	s.mu.Lock()
	s.alarm.rung()
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
	s.alarm.next(now, next)
	s.mu.Unlock()
	for _, b := range overdue {
		b.cancel(context.DeadlineExceeded, errOverdue)
	}
}

// countServerRequest implements callClocks.
func (s *exchangeTable) countServerRequest(call int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed, calls := false, 0
	for _, b := range s.callsLocked(call) {
		calls++
		allowed = b.clocks.count() || allowed
	}
	return allowed || calls == 0
}

// stopClocks implements callClocks.
func (s *exchangeTable) stopClocks(call int64) (restart func(answered bool)) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.callsLocked(call)
	for _, b := range calls {
		b.deadline = b.clocks.stop(b.deadline, now)
	}
	return func(answered bool) {
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range calls {
			if b.deadline = b.clocks.restart(answered, now); !b.deadline.IsZero() && s.open[b.key] == b && s.endCause == nil {
				s.alarm.set(b.deadline)
			}
		}
	}
}

// callsLocked are the calls that a request of the server's may belong to.
func (s *exchangeTable) callsLocked(call int64) (calls []*exchange) {
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

func (b *exchange) gotConn(info httptrace.GotConnInfo) {
	conn := trackedUnder(info.Conn)
	if conn != nil {
		b.writtenBefore.Store(conn.written.Load())
	}
	b.conn.Store(conn)
	b.connReused.Store(info.Reused || info.WasIdle)
	b.connected.Store(true)
}

// resetConn forgets the connection of an earlier request of the exchange.
func (b *exchange) resetConn() {
	b.connected.Store(false)
	b.connReused.Store(false)
	b.conn.Store(nil)
}

// unwritten reports whether it is certain that nothing was written to the
// connection since the exchange has it, and that nothing ever will be.
func (b *exchange) unwritten() bool {
	conn := b.conn.Load()
	return conn != nil && conn.closed.Load() && conn.written.Load() == b.writtenBefore.Load()
}

// cancel ends the exchange, unless it has ended.
func (b *exchange) cancel(err, cause error) {
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return
	}
	b.err, b.cause = err, cause
	after := b.afterFuncs
	b.afterFuncs = nil
	close(b.done)
	b.mu.Unlock()
	for _, f := range after {
		(*f)()
	}
}

// finish ends the exchange, if it was not lent to somebody else.
func (b *exchange) finish() {
	if !b.detached {
		b.finishDetached()
	}
}

// detach detaches the exchange from its parent and its deadline. Whoever borrows
// it calls finishLent. It fails if the parent has ended.
func (b *exchange) detach() bool {
	if b.stopFollowing != nil && !b.stopFollowing() {
		return false
	}
	b.table.mu.Lock()
	b.clockStopped = true
	b.table.mu.Unlock()
	b.detached = true
	return true
}

func (b *exchange) finishDetached() {
	if b.stopFollowing != nil {
		b.stopFollowing()
	}
	b.table.remove(b)
	b.cancel(context.Canceled, context.Canceled)
}

// Cause is why the exchange ended; nil as long as it has not.
func (b *exchange) Cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// Deadline implements context.Context.
func (b *exchange) Deadline() (time.Time, bool) {
	d, ok := b.Context.Deadline() // before the lock: the parent may be an exchange of the same set
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if ok && (b.deadline.IsZero() || d.Before(b.deadline)) {
		return d, true
	}
	return b.deadline, !b.deadline.IsZero()
}

// Done implements context.Context.
func (b *exchange) Done() <-chan struct{} { return b.done }

// Err implements context.Context.
func (b *exchange) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// AfterFunc lets derived contexts follow without a goroutine; package context
// asks for it.
func (b *exchange) AfterFunc(f func()) (stop func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		go f() // the caller may hold a lock that f takes
		return func() bool { return false }
	}
	entry := &f
	b.afterFuncs = append(b.afterFuncs, entry)
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		i := slices.Index(b.afterFuncs, entry)
		if i >= 0 {
			b.afterFuncs = slices.Delete(b.afterFuncs, i, i+1)
		}
		return i >= 0
	}
}

// causeOf is why a context ended.
func causeOf(ctx context.Context) error {
	if b, ok := ctx.(*exchange); ok {
		return b.Cause()
	}
	return context.Cause(ctx)
}
