package transport

import (
	"errors"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Progress (MCP, utilities, progress): a request carries a progressToken,
// which is its id; notifications/progress repeat it. Each of them restarts the
// clock of its request, and goes to the caller if that asked for it.

// MethodProgress is the method of a progress notification, as it stands in the
// message.
const MethodProgress = `"notifications/progress"`

const (
	// maxQueuedReports is how many reports may wait for one caller that is slower than its
	// server, and newsBytes how long their messages may be altogether. Further ones
	// are dropped and counted.
	maxQueuedReports = 8192
	maxQueuedBytes   = 1 << 20
	// maxProgress bounds the message of one report, in bytes; more is cut.
	maxProgress = 8 << 10
)

// ProgressQueue carries reports to the caller of one request, who reads them in its own
// goroutine. So a slow reader holds up nobody but itself, and has read all of
// them when its call returns.
type ProgressQueue struct {
	mu     sync.Mutex
	queued []mcpvisor.Progress
	bytes  int // of the messages in queued
	Ready  chan struct{}
	report func(mcpvisor.Progress)
}

// NewProgressQueue is nil if nobody wants to hear them.
func NewProgressQueue(report func(mcpvisor.Progress)) *ProgressQueue {
	if report == nil {
		return nil
	}
	return &ProgressQueue{Ready: make(chan struct{}, 1), report: report}
}

// Push adds a report, unless too many wait.
func (n *ProgressQueue) Push(p mcpvisor.Progress) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queued) >= maxQueuedReports || n.bytes+len(p.Message) > maxQueuedBytes {
		return false
	}
	n.queued = append(n.queued, p)
	n.bytes += len(p.Message)
	select {
	case n.Ready <- struct{}{}:
	default:
	}
	return true
}

// Deliver reports what is queued.
func (n *ProgressQueue) Deliver() {
	n.mu.Lock()
	queued := n.queued
	n.queued, n.bytes = nil, 0
	n.mu.Unlock()
	for _, p := range queued {
		n.report(p)
	}
}

// Clocks are the two bounds of a request: the time without progress, and the
// time at all.
//
// The first stands still while a handler answers a request of the server's that
// belongs to the call.
type Clocks struct {
	idle      time.Duration // 0: no such bound
	latestEnd time.Time     // zero: no such bound

	handlers int           // that are busy on behalf of the call
	left     time.Duration // of the idle time, when the first of them began
	requests int           // requests of the server's that were counted
	renewals int           // how often an answer of ours has restarted the idle time
}

// Start returns the first deadline of a request; zero if it has none.
func (c *Clocks) Start(r Request) (deadline time.Time) {
	if r.Timeout <= 0 && r.TotalTimeout <= 0 {
		return time.Time{}
	}
	now := time.Now()
	if r.TotalTimeout > 0 {
		c.latestEnd = now.Add(r.TotalTimeout)
	}
	c.idle = r.Timeout
	return c.Progressed(now)
}

// Progressed is the deadline after a sign of progress.
func (c *Clocks) Progressed(now time.Time) time.Time {
	if c.handlers > 0 {
		c.left = c.idle
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.idle)
}

// Paused reports whether a handler is busy on behalf of the call.
func (c *Clocks) Paused() bool { return c.handlers > 0 }

// Pause stops the idle clock, and returns the deadline meanwhile.
func (c *Clocks) Pause(deadline, now time.Time) time.Time {
	if c.handlers++; c.handlers == 1 && !deadline.IsZero() {
		c.left = deadline.Sub(now)
	}
	return c.latestEnd
}

// Resume undoes one stop, and returns the deadline from now on. A result is a
// sign of progress, as it is since 2026-07-28, where it leads to another round;
// and as often. After any other end the rest of the idle time is left.
func (c *Clocks) Resume(answered bool, now time.Time) time.Time {
	if answered && c.renewals < MaxRounds {
		c.renewals++
		c.left = c.idle
	}
	if c.handlers--; c.handlers > 0 {
		return c.latestEnd
	}
	return c.deadlineWithin(now, c.left)
}

// CountRequest counts a request of the server's. It reports false if there were enough.
func (c *Clocks) CountRequest() bool {
	c.requests++
	return c.requests <= MaxRequestsPerCall
}

// deadlineWithin is the deadline if left is what is left of the idle time.
func (c *Clocks) deadlineWithin(now time.Time, left time.Duration) time.Time {
	if c.idle <= 0 {
		return c.latestEnd
	}
	deadline := now.Add(left)
	if !c.latestEnd.IsZero() && c.latestEnd.Before(deadline) {
		return c.latestEnd
	}
	return deadline
}

// ReadProgress reads the parameters of a progress notification. Its message is
// made fit to be shown, as a line of the server's log is.
func ReadProgress(params []byte, redactor *Notifications) (token int64, p mcpvisor.Progress, ok bool) {
	err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
		switch key {
		case "progressToken":
			e := Envelope{ID: value}
			if token, ok = e.NumericID(); !ok {
				return errors.New("no token of ours")
			}
		case "progress":
			p.Progress, err = jsonscan.ReadNumber(value)
		case "total":
			p.Total, err = jsonscan.ReadNumber(value)
		case "message":
			if len(value) > 0 && value[0] != '"' {
				_, err = jsonscan.ReadString(value)
				break
			}
			p.Message = redactor.fitJSON(value, maxProgress)
		}
		return err
	})
	return token, p, ok && err == nil
}

// progressed takes a progress notification about a request of the call lane.
func (w *wire) progressed(params []byte) {
	token, report, ok := ReadProgress(params, w.notices)
	if !ok {
		w.noise.Malformed.Add(1)
		return
	}
	w.mu.Lock()
	p := w.pending[token]
	if p == nil || p.state == queued {
		w.mu.Unlock()
		w.noise.Unmatched.Add(1)
		return
	}
	if !p.deadline.IsZero() {
		p.deadline = p.clocks.Progressed(time.Now())
	}
	to := p.news
	w.mu.Unlock()
	if to != nil && !to.Push(report) {
		w.noise.Dropped.Add(1)
	}
}

// progressed is the same over HTTP.
func (s *httpSession) progressed(params []byte) {
	token, report, ok := ReadProgress(params, &s.Notifications)
	if !ok {
		s.noise.Malformed.Add(1)
		return
	}
	to, found := s.exchanges.progressed(token)
	switch {
	case !found:
		s.noise.Unmatched.Add(1)
	case to != nil && !to.Push(report):
		s.noise.Dropped.Add(1)
	}
}
