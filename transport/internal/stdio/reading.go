package stdio

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/poll"
)

const (
	// maxLead is how long a caller whose context may be canceled reads stdout for itself:
	// the context cannot wake it meanwhile. Then it waits as other callers do.
	maxLead = time.Millisecond
	// linger is how long the goroutine that reads stays when nothing is in flight, after
	// several calls were, or after a call was given up.
	linger = 10 * time.Millisecond
	// followedCalls is how often the goroutine that reads finds nothing in flight and stays
	// all the same, after several calls were in flight or after a caller gave the reading up.
	followedCalls = 32
)

// turn says who reads stdout.
type turn uint8

const (
	turnGoroutine turn = iota // a goroutine of its own
	turnCaller                // the caller of the only request in flight
	turnWatch                 // no call is in flight: the poller starts the goroutine when there is something to read
	turnOver                  // nothing begins to read any more
)

// reading decides who reads stdout. There is one reader at a time, and it owns the reader of
// lines. The only caller reads its answer for itself, which saves two goroutine switches. A
// server that has nothing to answer needs no goroutine.
//
// A caller reads answers of the call channel and nothing else. It leaves everything that may
// take long, or that others see, to the goroutine. It is woken by an answer from elsewhere,
// such as a timeout, because that sets the read deadline of stdout to the past.
//
// The mutex of the table guards all fields but the constant ones.
type reading struct {
	// Constant.
	stdout *os.File // nil: the goroutine always reads
	start  func()   // starts the goroutine, which calls readLoop; called with the mutex

	turn    turn
	held    bool        // the goroutine reads although no call is in flight
	leader  *pending    // the request whose caller reads; nil: no caller does
	streams int         // the streams in flight, which do not count as calls
	follow  int         // counts followedCalls down
	wakeAt  time.Time   // the read deadline of stdout; zero: none
	watch   *poll.Watch // nil until the first turnWatch
}

// newReading returns the state of a connection whose goroutine reads, until releaseTurn.
func newReading(stdout io.Reader) reading {
	r := reading{held: true}
	if f, ok := stdout.(*os.File); ok && f.SetReadDeadline(time.Time{}) == nil {
		r.stdout = f
	}
	return r
}

// wakeReaderLocked makes the reader look at its turn again.
func (r *reading) wakeReaderLocked() { r.setDeadlineLocked(time.Unix(1, 0)) }

func (r *reading) setDeadlineLocked(at time.Time) {
	if r.stdout != nil && (!at.IsZero() || !r.wakeAt.IsZero()) {
		r.wakeAt = at
		_ = r.stdout.SetReadDeadline(at)
	}
}

// lingerLocked makes the reader look at its turn again in a moment, if nothing comes.
func (r *reading) lingerLocked() {
	if r.wakeAt.IsZero() {
		r.setDeadlineLocked(time.Now().Add(linger))
	}
}

// callsLocked returns the number of calls in flight.
func (c *conn) callsLocked() int { return c.table.Open.Len() - c.reading.streams }

// takeTurnLocked gives the turn to the caller of p if nothing else reads: p is the only call,
// or the others want progress. A caller that wants progress waits for that, too, so it does not read.
func (c *conn) takeTurnLocked(ctx context.Context, p *pending) (leads bool) {
	r := &c.reading
	if c.callsLocked() > 1 {
		r.follow = followedCalls
	}
	if r.turn != turnWatch || p.stream || p.entry.Progress != nil {
		return false
	}
	r.turn, r.leader = turnCaller, p
	if ctx.Done() == nil {
		r.setDeadlineLocked(time.Time{})
	} else if now := time.Now(); r.wakeAt.Before(now.Add(maxLead/2)) || r.wakeAt.After(now.Add(maxLead)) {
		r.setDeadlineLocked(now.Add(maxLead)) // not for each call: that costs
	}
	return true
}

// lead reads until p is answered. If answered is false, the caller has given the turn on, and
// waits for its answer.
func (c *conn) lead(p *pending) (a answer, answered bool) {
	c.reading.watch.Disarm()
	c.in.brief = true
	defer func() { c.endLead(answered) }()
	for {
		line, _, over, err := c.in.next()
		if err != nil {
			return answer{}, false
		}
		c.noteRead()
		if over || len(line) > 0 && !c.receiveAnswer(line) {
			c.in.putBack()
			return answer{}, false
		}
		select {
		case a = <-p.answer:
			return a, true
		default:
		}
	}
}

// receiveAnswer passes a response of the call channel on, and reports false for any other
// line.
func (c *conn) receiveAnswer(line []byte) bool {
	if env, ok := jsonrpc.ScanEnvelope(line); ok && env.IsMessage() && env.IsResponse() && c.split.depth == 0 {
		if id, ok := env.NumericID(); ok && id >= jsonrpc.FirstID {
			c.receiveResponse(id, env)
			return true
		}
	}
	return false
}

// endLead gives the turn of a caller to the goroutine if there is something left to do, and
// otherwise to the poller.
func (c *conn) endLead(answered bool) {
	c.in.brief = false
	c.in.Release() // an idle connection holds no buffer
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	r := &c.reading
	r.leader = nil
	if !answered {
		r.follow = followedCalls
	}
	if r.turn == turnCaller && (c.in.holds() || c.callsLocked() > 0 || !c.watchLocked()) {
		c.startReaderLocked()
	}
}

// watchLocked gives the turn to the poller. It reports false if the system does not allow
// that.
func (c *conn) watchLocked() bool {
	r := &c.reading
	if r.watch == nil {
		if r.watch = poll.Shared.Watch(r.stdout, c.readable); r.watch == nil {
			return false
		}
	}
	if !r.watch.Arm() {
		return false
	}
	r.turn, r.follow = turnWatch, 0
	return true
}

// startReaderLocked gives the turn to the goroutine.
func (c *conn) startReaderLocked() {
	c.reading.turn = turnGoroutine
	c.reading.setDeadlineLocked(time.Time{}) // with one in the past, it would never read
	c.reading.start()
}

// readable starts the goroutine if the poller has the turn.
func (c *conn) readable() {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	if c.reading.turn == turnWatch {
		c.startReaderLocked()
	}
}

// mayStop reports whether the goroutine that reads may stop, as there is nothing to read.
func (c *conn) mayStop() bool {
	r := &c.reading
	if r.stdout == nil || c.in.inLongLine() {
		return false
	}
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	if !c.idleLocked() {
		return false
	}
	if r.follow == 0 {
		return true
	}
	r.follow--
	r.lingerLocked()
	return false
}

func (c *conn) idleLocked() bool {
	return c.reading.turn == turnGoroutine && !c.reading.held && c.callsLocked() == 0
}

// endTurn gives the turn of the goroutine to the poller, unless there is something left to
// do. It reports whether the goroutine ends.
func (c *conn) endTurn() bool {
	c.in.Release() // an idle connection holds no buffer
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	idle := c.idleLocked() && !c.in.inLongLine()
	if idle && c.watchLocked() {
		return true
	}
	c.reading.held = c.reading.held || idle // the system does not allow to watch
	c.reading.setDeadlineLocked(time.Time{})
	return false
}

// releaseTurn lets the goroutine stop when there is nothing to read and no call in flight.
// Before that it reads on: the go-sdk waits for its answers.
func (c *conn) releaseTurn() {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	c.reading.held = false
	if c.idleLocked() {
		c.reading.wakeReaderLocked()
	}
}

// stopReading has nothing begin to read any more. It is called before stdout is closed, which
// ends the reader.
func (c *conn) stopReading() {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	c.reading.turn = turnOver
	if c.reading.watch != nil {
		c.reading.watch.Remove()
	}
}
