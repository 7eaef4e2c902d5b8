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

// methodProgress is the method of a progress notification, as it stands in the
// message.
const methodProgress = `"notifications/progress"`

const (
	// newsMost is how many reports may wait for one caller that is slower than its
	// server, and newsBytes how long their messages may be altogether. Further ones
	// are dropped and counted.
	newsMost  = 8192
	newsBytes = 1 << 20
	// maxProgress bounds the message of one report, in bytes; more is cut.
	maxProgress = 8 << 10
)

// news carries reports to the caller of one request, who reads them in its own
// goroutine. So a slow reader holds up nobody but itself, and has read all of
// them when its call returns.
type news struct {
	mu     sync.Mutex
	queued []mcpvisor.Progress
	bytes  int // of the messages in queued
	more   chan struct{}
	report func(mcpvisor.Progress)
}

// newNews is nil if nobody wants to hear them.
func newNews(report func(mcpvisor.Progress)) *news {
	if report == nil {
		return nil
	}
	return &news{more: make(chan struct{}, 1), report: report}
}

// put adds a report, unless too many wait.
func (n *news) put(p mcpvisor.Progress) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queued) >= newsMost || n.bytes+len(p.Message) > newsBytes {
		return false
	}
	n.queued = append(n.queued, p)
	n.bytes += len(p.Message)
	select {
	case n.more <- struct{}{}:
	default:
	}
	return true
}

// tell reports what is queued.
func (n *news) tell() {
	n.mu.Lock()
	queued := n.queued
	n.queued, n.bytes = nil, 0
	n.mu.Unlock()
	for _, p := range queued {
		n.report(p)
	}
}

// clocks are the two bounds of a request: the time without progress, and the
// time at all.
//
// The first stands still while a handler answers a request of the server's that
// belongs to the call.
type clocks struct {
	idle   time.Duration // 0: no such bound
	latest time.Time     // zero: no such bound

	handlers int           // that are busy on behalf of the call
	left     time.Duration // of the idle time, when the first of them began
	asked    int           // requests of the server's that were counted
	renewed  int           // how often an answer of ours has restarted the idle time
}

// start returns the first deadline of a request; zero if it has none.
func (c *clocks) start(r Request) (deadline time.Time) {
	if r.Timeout <= 0 && r.TotalTimeout <= 0 {
		return time.Time{}
	}
	now := time.Now()
	if r.TotalTimeout > 0 {
		c.latest = now.Add(r.TotalTimeout)
	}
	c.idle = r.Timeout
	return c.next(now)
}

// next is the deadline after a sign of progress.
func (c *clocks) next(now time.Time) time.Time {
	if c.handlers > 0 {
		c.left = c.idle
		return c.latest
	}
	return c.within(now, c.idle)
}

// stop stops the idle clock, and returns the deadline meanwhile.
func (c *clocks) stop(deadline, now time.Time) time.Time {
	if c.handlers++; c.handlers == 1 && !deadline.IsZero() {
		c.left = deadline.Sub(now)
	}
	return c.latest
}

// restart undoes one stop, and returns the deadline from now on. A result is a
// sign of progress, as it is since 2026-07-28, where it leads to another round;
// and as often. After any other end the rest of the idle time is left.
func (c *clocks) restart(answered bool, now time.Time) time.Time {
	if answered && c.renewed < roundsMost {
		c.renewed++
		c.left = c.idle
	}
	if c.handlers--; c.handlers > 0 {
		return c.latest
	}
	return c.within(now, c.left)
}

// count counts a request of the server's. It reports false if there were enough.
func (c *clocks) count() bool {
	c.asked++
	return c.asked <= requestsPerCall
}

// within is the deadline if left is what is left of the idle time.
func (c *clocks) within(now time.Time, left time.Duration) time.Time {
	if c.idle <= 0 {
		return c.latest
	}
	deadline := now.Add(left)
	if !c.latest.IsZero() && c.latest.Before(deadline) {
		return c.latest
	}
	return deadline
}

// readProgress reads the parameters of a progress notification. Its message is
// made fit to be shown, as a line of the server's log is.
func readProgress(params []byte, redactor *notices) (token int64, p mcpvisor.Progress, ok bool) {
	err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
		switch key {
		case "progressToken":
			e := envelope{id: value}
			if token, ok = e.numericID(); !ok {
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
	token, report, ok := readProgress(params, w.notices)
	if !ok {
		w.noise.junk.Add(1)
		return
	}
	w.mu.Lock()
	p := w.pending[token]
	if p == nil || p.state == queued {
		w.mu.Unlock()
		w.noise.unmatched.Add(1)
		return
	}
	if !p.deadline.IsZero() {
		p.deadline = p.clocks.next(time.Now())
	}
	to := p.news
	w.mu.Unlock()
	if to != nil && !to.put(report) {
		w.noise.dropped.Add(1)
	}
}

// progressed is the same over HTTP.
func (s *httpSession) progressed(params []byte) {
	token, report, ok := readProgress(params, &s.notices)
	if !ok {
		s.noise.junk.Add(1)
		return
	}
	to, found := s.exchanges.progressed(token)
	switch {
	case !found:
		s.noise.unmatched.Add(1)
	case to != nil && !to.put(report):
		s.noise.dropped.Add(1)
	}
}
