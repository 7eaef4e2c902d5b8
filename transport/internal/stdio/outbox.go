package stdio

import (
	"io"
	"slices"
)

// gatherMax is how much is written in one piece. Lines longer than that are
// written alone, without a copy.
const gatherMax = 16 << 10

// flushRounds is how often a caller writes for others before it leaves the
// rest to the writer.
const flushRounds = 4

// outgoing is one line on its way to the server. Its state belongs to the
// wire's lock.
type outgoing struct {
	line  []byte
	state lineState
	done  chan struct{} // closed when written; nil if no goroutine waits for that
}

type lineState uint8

const (
	queued lineState = iota // nothing of it was written; it may be withdrawn
	taken                   // copied for writing
	direct                  // being written from its own memory
)

// outbox holds the lines that wait to be written, and who writes them.
//
// There is one writer at a time. A caller that finds no writer becomes it: it writes
// its own line at once if the pipe takes it, together with what others have
// queued meanwhile. Only when the pipe is full does the writing goroutine take
// over, so that a server which does not read delays only that goroutine.
type outbox struct {
	out io.Writer
	// try writes what the pipe takes without waiting; nil where that cannot be
	// had.
	try func([]byte) (int, error)

	queue   []*outgoing // with the wire's lock held
	writing bool        // with the wire's lock held

	// The writer's own.
	scratch  []byte
	waiting  []chan struct{}
	rest     []byte
	failed   error
	takeover chan struct{}
}

// add queues a line. It reports whether the caller is to write.
func (o *outbox) add(line *outgoing) bool {
	line.state = queued
	o.queue = append(o.queue, line)
	if o.writing {
		return false
	}
	o.writing = true
	return true
}

// withdraw takes back a line that is still queued.
func (o *outbox) withdraw(line *outgoing) {
	if i := slices.Index(o.queue, line); i >= 0 {
		o.queue = slices.Delete(o.queue, i, i+1)
	}
}

// gather takes the next batch off the queue. When the queue is empty, no goroutine is
// writing any more.
func (o *outbox) gather() (batch []byte) {
	o.scratch = o.scratch[:0]
	n := 0
	for ; n < len(o.queue); n++ {
		line := o.queue[n]
		if n > 0 && len(o.scratch)+len(line.line) > gatherMax {
			break
		}
		if line.done != nil {
			o.waiting = append(o.waiting, line.done)
		}
		if len(line.line) > gatherMax {
			line.state, batch = direct, line.line
			n++
			break
		}
		line.state = taken
		o.scratch = append(o.scratch, line.line...)
	}
	if batch == nil {
		batch = o.scratch
	}
	o.queue = slices.Delete(o.queue, 0, n)
	o.writing = n > 0
	return batch
}

// written tells those who wait for it.
func (o *outbox) written() {
	for i, done := range o.waiting {
		close(done)
		o.waiting[i] = nil
	}
	o.waiting = o.waiting[:0]
}

// flush writes what is queued as far as the pipe takes it at once, and leaves
// the rest to the writing goroutine. It never waits for the server.
func (w *wire) flush() {
	o := &w.out
	for round := 0; ; round++ {
		batch := w.nextBatch()
		if len(batch) == 0 {
			return
		}
		if o.try == nil || round == flushRounds {
			o.handOver(batch, nil)
			return
		}
		if n, err := o.try(batch); err != nil || n < len(batch) {
			o.handOver(batch[n:], err)
			return
		}
		o.written()
	}
}

func (o *outbox) handOver(rest []byte, err error) {
	o.rest, o.failed = rest, err
	o.takeover <- struct{}{} // has room: there is one writer
}

// writeLoop writes what callers hand over, until the session is dead or a
// write fails.
func (w *wire) writeLoop() error {
	o := &w.out
	for {
		select {
		case <-w.Dead():
			return nil
		case <-o.takeover:
		}
		if o.failed != nil {
			return o.failed
		}
		for batch := o.rest; len(batch) > 0; batch = w.nextBatch() {
			if _, err := o.out.Write(batch); err != nil {
				return err
			}
			o.written()
		}
	}
}

func (w *wire) nextBatch() []byte {
	w.table.Mu.Lock()
	defer w.table.Mu.Unlock()
	return w.out.gather()
}
