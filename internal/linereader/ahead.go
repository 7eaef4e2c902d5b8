package linereader

import (
	"errors"
	"sync"
)

// MaxAhead is how much is read ahead, in bytes. It is more than the buffers of pipes and sockets hold, so
// that the end of a peer that has gone is reached.
const MaxAhead = 2 << 20

// Ahead reads lines before they are asked for. So the end is noticed while nobody takes lines. One goroutine
// takes them; Close may be called by any.
type Ahead struct {
	ended chan struct{} // closed when nothing more comes

	mu     sync.Mutex // guards the fields below
	change *sync.Cond
	lines  [][]byte // nil: one that was too long
	bytes  int      // of lines
	err    error    // why nothing more comes
	closed bool
}

// Ahead begins to read ahead. The reader belongs to the result, which has a goroutine until the reader has ended,
// or Close and a line.
func (r *Reader) Ahead() *Ahead {
	a := &Ahead{ended: make(chan struct{})}
	a.change = sync.NewCond(&a.mu)
	go a.read(r)
	return a
}

func (a *Ahead) read(from *Reader) {
	defer close(a.ended)
	for {
		line, err := from.Next()
		a.mu.Lock()
		for a.bytes > 0 && a.bytes+len(line) > MaxAhead && !a.closed {
			a.change.Wait()
		}
		if err != nil && !errors.Is(err, ErrTooLong) {
			a.err = err
		} else {
			a.lines = append(a.lines, line)
			a.bytes += len(line)
		}
		done := a.err != nil || a.closed
		a.change.Broadcast()
		a.mu.Unlock()
		if done {
			return
		}
	}
}

// Ended is closed when nothing more is read. There may be lines that were not taken.
func (a *Ahead) Ended() <-chan struct{} { return a.ended }

// errClosed is the error of Next after Close.
var errClosed = errors.New("the reader was closed")

// Next is [Reader.Next]. It waits for a line, the end, or Close.
func (a *Ahead) Next() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.lines) == 0 && a.err == nil && !a.closed {
		a.change.Wait()
	}
	switch {
	case a.closed:
		return nil, errClosed
	case len(a.lines) == 0:
		return nil, a.err
	}
	line := a.lines[0]
	a.lines[0] = nil
	if a.lines = a.lines[1:]; len(a.lines) == 0 {
		a.lines = nil
	}
	a.bytes -= len(line)
	a.change.Broadcast()
	if line == nil {
		return nil, ErrTooLong
	}
	return line, nil
}

// Close drops the lines that were not taken. It does not end a read of the reader.
func (a *Ahead) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed, a.lines = true, nil
	a.change.Broadcast()
}
