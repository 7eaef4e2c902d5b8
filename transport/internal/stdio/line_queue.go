package stdio

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxBatchBytes bounds what is written in one piece. A longer line is written alone,
// without a copy.
const maxBatchBytes = 16 << 10

// maxFlushRounds is how many batches a caller writes before it leaves the rest to a
// goroutine. Without a bound, a caller could write for others forever.
const maxFlushRounds = 4

// outgoing is one line to the server.
type outgoing struct {
	text  []byte
	state lineState     // guarded by the mutex of the table
	batch uint64        // the number of the batch that has taken it; guarded as state
	done  chan struct{} // closed when the line is written; nil if no goroutine waits for that
}

// lineState says whether the server may have seen a line. It decides the outcome of a request
// that ends without an answer (removeLocked): lineUnsent is OutcomeNotSent, the others are
// OutcomeUnknown.
//
// A batch is one piece. If the pipe takes a part of it and then breaks (writeRest), the outcome of
// all its requests is unknown, even of those behind the part: a batch does not keep where its
// lines begin. If the pipe took no byte of the batch, markBatchUnsent marks its lines as unsent
// again. The outcome of a request that has ended before that stays unknown.
type lineState uint8

const (
	lineUnsent lineState = iota // no byte of it was sent
	lineCopied                  // copied into a batch
	lineDirect                  // being written from its own memory
)

// lineQueue holds the lines that are to be written. The mutex of the table of requests
// guards the queue, so that a request enters the table and the queue in one step.
//
// There is one writer at a time. A caller that finds no writer becomes the writer. It
// writes its own line as far as the pipe takes it at once, together with the lines that
// others have queued meanwhile. When the pipe is full, a goroutine becomes the writer until
// the queue is empty. So a server that does not read blocks only that goroutine.
type lineQueue struct {
	out io.Writer
	// tryWrite writes as much as the pipe takes without blocking; nil where the
	// operating system offers no such write.
	tryWrite func([]byte) (int, error)

	// Guarded by the mutex of the table.
	queue   []*outgoing
	writing bool   // there is a writer
	batch   uint64 // the number of the current batch

	// Owned by the writer.
	scratch []byte          // the current batch, unless that is a single long line
	waiting []chan struct{} // the done channels of the current batch
}

// add queues a line. It reports whether the caller becomes the writer.
func (o *lineQueue) add(line *outgoing) bool {
	line.state = lineUnsent
	o.queue = append(o.queue, line)
	if o.writing {
		return false
	}
	o.writing = true
	return true
}

// withdraw removes a line that is still queued.
func (o *lineQueue) withdraw(line *outgoing) {
	if i := slices.Index(o.queue, line); i >= 0 {
		o.queue = slices.Delete(o.queue, i, i+1)
	}
}

// takeBatch takes the next batch off the queue. An empty batch means that the queue is
// empty, and that the caller is no longer the writer.
func (o *lineQueue) takeBatch() (batch []byte) {
	o.scratch = o.scratch[:0]
	o.batch++
	n := 0
	for ; n < len(o.queue); n++ {
		line := o.queue[n]
		if n > 0 && len(o.scratch)+len(line.text) > maxBatchBytes {
			break
		}
		if line.done != nil {
			o.waiting = append(o.waiting, line.done)
		}
		line.batch = o.batch
		if len(line.text) > maxBatchBytes {
			line.state, batch = lineDirect, line.text
			n++
			break
		}
		line.state = lineCopied
		o.scratch = append(o.scratch, line.text...)
	}
	if batch == nil {
		batch = o.scratch
	}
	o.queue = slices.Delete(o.queue, 0, n)
	o.writing = n > 0
	return batch
}

// notifyWritten wakes the goroutines that wait for lines of the current batch.
func (o *lineQueue) notifyWritten() {
	for i, done := range o.waiting {
		close(done)
		o.waiting[i] = nil
	}
	o.waiting = o.waiting[:0]
}

// flush writes what is queued as far as the pipe takes it at once, and leaves the rest
// to a goroutine. It never blocks on the server. The caller is the writer.
func (c *conn) flush() {
	o := &c.out
	for round := 0; ; round++ {
		batch := c.nextBatch()
		if len(batch) == 0 {
			return
		}
		if o.tryWrite == nil || round == maxFlushRounds {
			c.handOver(batch, 0, nil)
			return
		}
		if n, err := o.tryWrite(batch); err != nil || n < len(batch) {
			c.handOver(batch, n, err)
			return
		}
		o.notifyWritten()
	}
}

// handOver starts a goroutine that becomes the writer. It writes the rest of the batch, which
// begins at byte n, and then the queue. err, if set, is why the caller could not write:
// then nothing more is written, and the goroutine only reports err. After the end of the
// connection nothing is written either.
func (c *conn) handOver(batch []byte, n int, err error) {
	c.table.Mu.Lock() // so that no goroutine starts after failAll
	defer c.table.Mu.Unlock()
	if c.table.Ended() == nil {
		c.goWrite(func() {
			if err := c.writeRest(batch, n, err); err != nil {
				c.onWriteError(err)
			}
		})
	}
}

// writeRest writes a batch from byte n on, and then the queue. After an error it takes nothing
// more off the queue.
func (c *conn) writeRest(batch []byte, n int, err error) error {
	for len(batch) > 0 {
		if err == nil {
			var more int
			more, err = c.out.out.Write(batch[n:])
			n += more
		}
		if err != nil {
			if n == 0 {
				c.markBatchUnsent()
			}
			return err
		}
		c.out.notifyWritten()
		batch, n = c.nextBatch(), 0
	}
	return err
}

// markBatchUnsent marks the lines of the current batch as unsent: no byte of the batch was
// written. The lines are not queued again. The connection ends, removeLocked gives their requests
// OutcomeNotSent, and the facade may send those to the next incarnation.
func (c *conn) markBatchUnsent() {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	for e := range c.table.Open.All() {
		if p := e.Owner.(*pending); p.line.batch == c.out.batch {
			p.line.state = lineUnsent
		}
	}
}

func (c *conn) nextBatch() []byte {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	return c.out.takeBatch()
}

// postLine queues one line, and writes it if there is no writer. It reports false if the
// connection has ended.
func (c *conn) postLine(line *outgoing) bool { return c.postLineIfRoom(line, math.MaxInt) }

// postLineIfRoom is postLine, but also reports false if room lines are queued already.
func (c *conn) postLineIfRoom(line *outgoing, room int) bool {
	c.table.Mu.Lock()
	if c.table.Ended() != nil || len(c.out.queue) >= room {
		c.table.Mu.Unlock()
		return false
	}
	write := c.out.add(line)
	c.table.Mu.Unlock()
	if write {
		c.flush()
	}
	return true
}

// sendLine posts one line and waits until it is written. When ctx ends, it withdraws a line
// that is still queued.
func (c *conn) sendLine(ctx context.Context, text []byte) error {
	line := &outgoing{text: text, done: make(chan struct{})}
	if c.lifetime.Cause() != nil || !c.postLine(line) {
		return io.ErrClosedPipe
	}
	select {
	case <-line.done:
		return nil
	case <-c.lifetime.Dead():
		return io.ErrClosedPipe
	case <-ctx.Done():
		c.table.Mu.Lock()
		defer c.table.Mu.Unlock()
		if line.state == lineUnsent {
			c.out.withdraw(line)
		}
		return ctx.Err()
	}
}

// sendResponse writes the response to a request of the server, and returns when it is
// written. It fails only with the connection. Nothing is written after the end of the
// connection, which also ends the handlers: the server would take the error of a handler as
// the reason to answer a call that the end has failed.
func (c *conn) sendResponse(text []byte) {
	_ = c.sendLine(context.Background(), append(text, '\n'))
}

// notifyCancelled notifies the server that the client no longer waits for a response (MCP,
// utilities, cancellation). It does not wait for the delivery.
func (c *conn) notifyCancelled(id int64, timedOut bool) {
	c.postLine(&outgoing{text: append(jsonrpc.Cancelled(id, timedOut), '\n')})
}
