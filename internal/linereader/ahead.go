package linereader

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/internal/poll"
)

// MaxAhead is how much is read ahead, in bytes.
const MaxAhead = 2 << 20

// stallTimeout is how long a line waits for room while none is taken.
const stallTimeout = 2 * time.Second

// Ahead reads lines before they are asked for. So the end is noticed without a reader of lines: what there is no room
// for is refused. One goroutine takes them; Close may be called by any.
type Ahead struct {
	ended  chan struct{}     // closed when nothing more comes
	refuse func(line []byte) // read only
	take   Take              // read only; nil: Next gets all lines
	from   *Reader           // owned by the goroutine that reads
	watch  *poll.Watch       // of what is read; nil: it cannot be watched. Set before the first line is read

	mu     sync.Mutex // guards the fields below
	change *sync.Cond
	lines  [][]byte // nil: one that was too long
	bytes  int      // of lines
	err    error    // why nothing more comes
	closed bool
	stall  *overdue.Timer // runs while a line waits for room; nil otherwise
	// stalled: a line has waited too long, and none was taken since.
	stalled bool
	waiting bool // Next waits
	running bool // the goroutine that reads runs what Take has returned, and is still the one that reads
	pause   int  // how many lines are not run, because something came in between lately
}

// Take is called with a line by the goroutine that has read it, if a call of Next waits and no other line does. That saves
// the switch to the goroutine that calls Next. It reports whether it has taken the line; otherwise Next returns
// it. It must not block. If mayRun is true, it may return what the same goroutine runs before it reads the next line.
type Take func(line []byte, mayRun bool) (run Runner, taken bool)

// Runner is what follows from a line.
type Runner interface {
	// Run may block: as soon as there is something to read, or the stream has ended, another goroutine reads.
	// Code of the host may end the goroutine in it.
	Run()
	// Finish is called after Run. It must not block: no goroutine may read meanwhile.
	Finish()
}

// pauseLines is how many lines are not run after something has come while one was run: callers at the same time would hand the
// reading from one goroutine to the next.
const pauseLines = 32

// Ahead begins to read ahead. The reader belongs to the result, which has a goroutine until the reader has ended,
// or Close and a line. refuse is called with each line for which there was no room within 2 seconds; nothing is read
// meanwhile.
func (r *Reader) Ahead(refuse func(line []byte)) *Ahead { return r.AheadFor(refuse, nil) }

// AheadFor is [Reader.Ahead] with a Take.
func (r *Reader) AheadFor(refuse func(line []byte), take Take) *Ahead {
	a := &Ahead{ended: make(chan struct{}), refuse: refuse, take: take, from: r}
	a.change = sync.NewCond(&a.mu)
	if file, ok := r.stream.(*os.File); ok && take != nil {
		a.watch = watched(file, a.takeOver)
	}
	go a.read()
	return a
}

// watched returns a watch of a file; nil if it cannot be watched, such as a regular file.
func watched(file *os.File, ready func()) *poll.Watch {
	w := poll.Shared.Watch(file, ready)
	if w == nil {
		return nil
	}
	if !w.Arm() {
		w.Remove()
		return nil
	}
	w.Disarm()
	return w
}

// read reads until nothing more comes, or until another goroutine reads.
func (a *Ahead) read() {
	for {
		line, err := a.from.Next()
		if err != nil && !errors.Is(err, ErrTooLong) {
			a.end(err)
			return
		}
		if run, taken := a.offer(line); taken && run != nil {
			if !a.runWhileReading(run) {
				return
			}
			continue
		} else if !taken {
			added, closed := a.add(line)
			if closed {
				a.end(nil)
				return
			}
			if !added {
				a.refuse(line)
			}
		}
		runtime.Gosched() // the reader of the line runs first: the next read may block a thread, with the processor
	}
}

// end notes that nothing more comes. A reader that was closed has no error.
func (a *Ahead) end(err error) {
	if a.watch != nil {
		a.watch.Remove()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	a.change.Broadcast()
	close(a.ended)
}

// offer calls Take with a line, if it is its turn.
func (a *Ahead) offer(line []byte) (run Runner, taken bool) {
	if a.take == nil || line == nil {
		return nil, false
	}
	a.mu.Lock()
	next := a.waiting && len(a.lines) == 0 && !a.closed
	mayRun := a.watch != nil && a.pause == 0 && a.from.isEmpty()
	a.pause = max(0, a.pause-1)
	a.mu.Unlock()
	if !next {
		return nil, false
	}
	return a.take(line, mayRun)
}

// runWhileReading runs what follows from a line, and lets another goroutine read what comes meanwhile. It reports
// whether the caller is still the one that reads.
func (a *Ahead) runWhileReading(run Runner) (reads bool) {
	a.setRunning()
	a.watch.Arm() // unless it was closed
	returned := false
	defer func() {
		a.watch.Disarm() // before the peer has what it may wait for
		reads = a.endRunning()
		run.Finish()
		if reads && !returned { // the goroutine ends
			go a.read()
		}
	}()
	run.Run()
	returned = true
	return false
}

func (a *Ahead) setRunning() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = true
}

func (a *Ahead) endRunning() (reads bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reads = a.running
	a.running = false
	return reads
}

// takeOver lets another goroutine read while the one that reads runs something.
func (a *Ahead) takeOver() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running {
		a.running, a.pause = false, pauseLines
		go a.read()
	}
}

// add adds a line as soon as there is room, but does not wait longer than stallTimeout while none is taken.
func (a *Ahead) add(line []byte) (added, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes > 0 && a.bytes+len(line) > MaxAhead && !a.closed && !a.stalled {
		if a.stall == nil {
			a.stall = overdue.AfterFunc(stallTimeout, func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.stalled = a.stall != nil
				a.change.Broadcast()
			})
		}
		a.change.Wait()
	}
	a.stopLocked()
	if a.closed || a.stalled {
		return false, a.closed
	}
	a.lines = append(a.lines, line)
	a.bytes += len(line)
	a.change.Broadcast()
	return true, false
}

// stopLocked ends the wait of a line.
func (a *Ahead) stopLocked() {
	if a.stall != nil {
		a.stall.Stop()
		a.stall = nil
	}
}

// Ended is closed when nothing more is read. There may be lines that were not taken.
func (a *Ahead) Ended() <-chan struct{} { return a.ended }

// ErrClosed is the error of Next after Close.
var ErrClosed = errors.New("the reader was closed")

// Next is [Reader.Next]. It waits for a line, the end, Close, or the end of ctx.
func (a *Ahead) Next(ctx context.Context) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.emptyLocked() && ctx.Done() != nil {
		defer context.AfterFunc(ctx, a.broadcast)()
	}
	for a.emptyLocked() && ctx.Err() == nil {
		a.waiting = true
		a.change.Wait()
		a.waiting = false
	}
	switch {
	case a.emptyLocked():
		return nil, ctx.Err()
	case a.closed:
		return nil, ErrClosed
	case len(a.lines) == 0:
		return nil, a.err
	}
	line := a.lines[0]
	a.lines[0] = nil
	if a.lines = a.lines[1:]; len(a.lines) == 0 {
		a.lines = nil
	}
	a.bytes -= len(line)
	a.stalled = false
	a.stopLocked() // the next wait is a new one
	a.change.Broadcast()
	if line == nil {
		return nil, ErrTooLong
	}
	return line, nil
}

// emptyLocked reports whether Next has to wait.
func (a *Ahead) emptyLocked() bool { return len(a.lines) == 0 && a.err == nil && !a.closed }

func (a *Ahead) broadcast() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.change.Broadcast()
}

// Close drops the lines that were not taken. It does not end a read of the reader.
func (a *Ahead) Close() {
	if a.watch != nil {
		a.watch.Remove() // before what is read is closed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed, a.lines = true, nil
	a.change.Broadcast()
}
