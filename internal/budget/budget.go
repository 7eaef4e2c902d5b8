// Package budget bounds how many bytes are held at one time, with backpressure.
//
// A [Budget] belongs to one server. It can have a parent that all servers of a
// client share. Each message that is read or decoded has a [Share], which grows with
// the message. Without room the share waits, in the order of arrival.
//
// Messages that are half read could hold all the room and wait for each other
// forever. So one share of each budget may exceed the limit of the budget and of its
// parent: the first that finds no room. A budget therefore holds at most its limit
// and one message, and a parent its limit and one message of each child. A child
// that holds nothing never waits for another child.
package budget

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// Budget bounds the sum of its shares. A nil *Budget has no bound. It is safe for
// concurrent use.
type Budget struct {
	parent *Budget

	mu       sync.Mutex // locked before that of the parent; guards the fields below
	limit    int64      // changed by Resize and Close
	used     int64
	returned uint64 // how often a share was released
	exceeded bool   // a share exceeds the limit
	closed   bool   // by Close
	queue    waitqueue.Queue[growth]
	waiting  map[*Budget]bool // the children that have a queue
}

// growth is what a share waits for.
type growth struct {
	share *Share
	bytes int64
}

// New returns a budget of limit bytes. The parent may be nil.
func New(limit int, parent *Budget) *Budget {
	return &Budget{limit: int64(limit), parent: parent}
}

// Used returns how many bytes the shares hold.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Waiting returns how many shares wait for room.
func (b *Budget) Waiting() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.Len()
}

// Take adds bytes without waiting, until Return. It reports false, and adds nothing, if b has no room, or already holds
// as much as is still free of a parent: holders of much leave room for holders of little. A
// budget has either shares or bytes that were taken.
func (b *Budget) Take(bytes int) bool {
	fits := int64(bytes) <= b.lockRoom()
	for ; b != nil; b = b.parent {
		if fits {
			b.used += int64(bytes)
		}
		b.mu.Unlock()
	}
	return fits
}

// lockRoom locks b and its parents, and returns how many bytes b has room for.
func (b *Budget) lockRoom() int64 {
	if b == nil {
		return math.MaxInt64
	}
	b.mu.Lock()
	return min(b.limit, b.parent.lockRoom()) - b.used
}

// Resize sets the limit for what is taken later. It must not be called with [Budget.Close].
func (b *Budget) Resize(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}

// Return ends what Take has begun.
func (b *Budget) Return(bytes int) {
	for closed := false; b != nil && !closed; b = b.parent {
		b.mu.Lock()
		if closed = b.closed; !closed {
			b.used -= int64(bytes)
		}
		b.mu.Unlock()
	}
}

// Close returns all that was taken of b. After that nothing can be taken or returned.
func (b *Budget) Close() {
	b.mu.Lock()
	used := b.used
	b.used, b.limit, b.closed = 0, 0, true
	b.mu.Unlock()
	b.parent.Return(int(used))
}

// Share returns a share that holds nothing.
func (b *Budget) Share() Share { return Share{budget: b} }

// Share is the part of a budget that one message holds. It belongs to one goroutine
// at a time. A nil Share and the zero Share have no budget and grow without bound.
type Share struct {
	budget    *Budget
	held      int64
	mayExceed bool // it is the share that may exceed the limit
}

// errStopped is the error of Grow when stop is closed.
var errStopped = errors.New("stopped")

// Grow adds bytes to the share. It waits for room until ctx ends or stop is closed.
// Both may be nil. It returns the cause of ctx, or errStopped, and then the share is
// unchanged.
func (s *Share) Grow(ctx context.Context, stop <-chan struct{}, bytes int) error {
	if s == nil || s.budget == nil || bytes <= 0 {
		return nil
	}
	b := s.budget
	b.mu.Lock()
	if (b.queue.Len() == 0 || s.mayExceed) && b.admit(s, int64(bytes)) {
		b.mu.Unlock()
		return nil
	}
	w := b.queue.Add(growth{s, int64(bytes)})
	if b.queue.Len() == 1 {
		b.parent.setChildWaiting(b, true)
	}
	b.admitWaiting() // the parent may have room by now
	b.mu.Unlock()

	var ended <-chan struct{}
	if ctx != nil {
		ended = ctx.Done()
	}
	err := errStopped
	select {
	case <-w.Admitted():
		return nil
	case <-ended:
		err = cmp.Or(context.Cause(ctx), errStopped) // a context may have no cause
	case <-stop:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.queue.Remove(w) {
		return nil // admitted in the same moment
	}
	b.reportQueueEmpty()
	b.admitWaiting()
	return err
}

// Patience is how long [Share.GrowPatiently] waits.
type Patience struct {
	// Still is how long no share may be released of a budget that is short, and Most bounds the
	// wait as a whole: a share that is never released must not stop others for longer.
	Still, Most time.Duration
	// Sign, if set, is called every Interval of the wait. Interval must be positive.
	Sign     func()
	Interval time.Duration
}

// GrowPatiently adds bytes to the share, as [Share.Grow] does. It waits while shares are
// released from time to time: a slow reader is not stuck. It reports false, and the
// share is unchanged, if patience or ctx has ended, or stop was closed.
func (s *Share) GrowPatiently(ctx context.Context, stop <-chan struct{}, bytes int, p Patience) bool {
	began := time.Now()
	for changed, seen := began, s.turnover(bytes); ; {
		waiting, cancel := context.WithTimeoutCause(ctx, p.Interval, errInterval)
		err := s.Grow(waiting, stop, bytes)
		cancel()
		now := time.Now()
		if n := s.turnover(bytes); n != seen {
			changed, seen = now, n
		}
		switch {
		case err == nil:
			return true
		case err != errInterval, now.Sub(changed) > p.Still, now.Sub(began) > p.Most:
			return false
		case p.Sign != nil:
			p.Sign()
		}
	}
}

// errInterval is the cause of a context that ends so that the wait can be looked at.
var errInterval = errors.New("the interval has ended")

// turnover changes when room is returned that the share could use for bytes more: to its
// budget and, if that one has enough, to the parent.
func (s *Share) turnover(bytes int) uint64 {
	if s == nil || s.budget == nil {
		return 0
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parent == nil || b.used+int64(bytes) > b.limit {
		return b.returned
	}
	b.parent.mu.Lock()
	defer b.parent.mu.Unlock()
	return b.returned + b.parent.returned
}

// Release returns all bytes to the budget. The share may grow again.
func (s *Share) Release() {
	if s == nil || s.budget == nil || s.held == 0 {
		return
	}
	b := s.budget
	b.mu.Lock()
	b.used -= s.held
	b.returned++
	if s.mayExceed {
		b.exceeded = false
	}
	others := b.parent.unreserve(s.held)
	b.admitWaiting()
	b.mu.Unlock()
	s.held, s.mayExceed = 0, false
	for _, other := range others {
		if other != b {
			other.mu.Lock()
			other.admitWaiting()
			other.mu.Unlock()
		}
	}
}

// TakeOver releases the share and moves the bytes of from into it.
func (s *Share) TakeOver(from *Share) {
	s.Release()
	*s = *from
	*from = Share{budget: from.budget}
}

// admit adds bytes to a share and reports true, if there is room or the share may
// exceed the limit. b.mu is held.
func (b *Budget) admit(s *Share, bytes int64) bool {
	switch {
	case s.mayExceed, b.used+bytes <= b.limit && b.parent.reserve(bytes, false):
		if s.mayExceed {
			b.parent.reserve(bytes, true)
		}
	case !b.exceeded:
		b.exceeded, s.mayExceed = true, true
		b.parent.reserve(bytes, true)
	default:
		return false
	}
	b.used += bytes
	s.held += bytes
	return true
}

// admitWaiting admits shares from the head of the queue while there is room. b.mu is
// held.
func (b *Budget) admitWaiting() {
	if b.queue.Len() == 0 {
		return
	}
	b.queue.Admit(func(g growth) bool { return b.admit(g.share, g.bytes) })
	b.reportQueueEmpty()
}

// reportQueueEmpty notes at the parent that the queue is empty, if it is.
func (b *Budget) reportQueueEmpty() {
	if b.queue.Len() == 0 {
		b.parent.setChildWaiting(b, false)
	}
}

// reserve adds bytes of a child to a parent, if there is room or must is set.
func (b *Budget) reserve(bytes int64, must bool) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !must && b.used+bytes > b.limit {
		return false
	}
	b.used += bytes
	return true
}

// unreserve removes bytes of a child from a parent. It returns the children that may
// wait for them.
func (b *Budget) unreserve(bytes int64) (waiting []*Budget) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
	b.returned++
	for child := range b.waiting {
		waiting = append(waiting, child)
	}
	return waiting
}

// setChildWaiting notes at a parent whether a child has a queue. The child's mutex is
// held.
func (b *Budget) setChildWaiting(child *Budget, waits bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !waits {
		delete(b.waiting, child)
		return
	}
	if b.waiting == nil {
		b.waiting = make(map[*Budget]bool)
	}
	b.waiting[child] = true
}
