package linereader

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/overdue"
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
	from   *Reader           // owned by the goroutine that reads

	mu     sync.Mutex // guards the fields below
	change *sync.Cond
	lines  [][]byte // nil: one that was too long
	bytes  int      // of lines
	err    error    // why nothing more comes
	closed bool
	stall  *overdue.Timer // runs while a line waits for room; nil otherwise
	// stalled: a line has waited too long, and none was taken since.
	stalled bool
}

// Ahead begins to read ahead. The reader belongs to the result, which has a goroutine until the reader has ended,
// or Close and a line. refuse is called with each line for which there was no room within 2 seconds; nothing is read
// meanwhile.
func (r *Reader) Ahead(refuse func(line []byte)) *Ahead {
	a := &Ahead{ended: make(chan struct{}), refuse: refuse, from: r}
	a.change = sync.NewCond(&a.mu)
	go a.read()
	return a
}

// read reads until nothing more comes.
func (a *Ahead) read() {
	for {
		line, err := a.from.Next()
		if err != nil && !errors.Is(err, ErrTooLong) {
			a.end(err)
			return
		}
		added, closed := a.add(line)
		if closed {
			a.end(nil)
			return
		}
		if !added {
			a.refuse(line)
		}
		runtime.Gosched() // the reader of the line runs first: the next read may block a thread, with the processor
	}
}

// end notes that nothing more comes. A reader that was closed has no error.
func (a *Ahead) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	a.change.Broadcast()
	close(a.ended)
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
		a.change.Wait()
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
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed, a.lines = true, nil
	a.change.Broadcast()
}
