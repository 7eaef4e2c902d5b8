package process

import (
	"errors"
	"os"
	"sync"

	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
	"github.com/mcpvisor/mcpvisor/transport/internal/poll"
)

// stderrBuffer is how much of stderr is read at a time, in bytes. A silent server holds no
// buffer. The size is that of stdout's first buffer, so that the pool usually has one.
const stderrBuffer = pipe.MinBuffer

// stderrPoller watches the stderr of all servers. It is not [poll.Shared], so that servers
// that flood their stderr delay no exit and no answer of other ones.
var stderrPoller poll.Poller

// stderrReader reads the stderr of a process into its tail: where the poller watches it, a
// bounded piece at a time, so that a server that floods its stderr delays no other one for
// long; elsewhere in a goroutine.
type stderrReader struct {
	// Constant.
	tail  *StderrTail
	watch *poll.Watch   // nil: a goroutine reads
	done  chan struct{} // closed when all was read, or by stop
	once  sync.Once     // closes done

	// mu is held by who reads: a goroutine, that of the poller, or readRest. It guards the
	// fields below.
	mu     sync.Mutex
	in     *pipe.Reader
	buffer *pipe.Buffer // nil while there is nothing to read
}

// readStderr begins to read.
func readStderr(stderr *os.File, tail *StderrTail) *stderrReader {
	r := &stderrReader{tail: tail, done: make(chan struct{}), in: pipe.NewReader(stderr)}
	if r.watch = stderrPoller.Watch(stderr, r.readPiece); r.watch != nil {
		r.in.OnEmpty = func() bool { return true }
		if r.watch.Arm() {
			return r
		}
		r.watch.Remove()
		r.watch, r.in.OnEmpty = nil, nil
	}
	go r.readAll()
	return r
}

// stop ends the reading, unless a goroutine reads. It is called before the pipe is closed,
// which ends that.
func (r *stderrReader) stop() {
	if r.watch != nil {
		r.end() // before Remove, which takes longer than who waits for done should wait
		r.watch.Remove()
	}
}

func (r *stderrReader) end() { r.once.Do(func() { close(r.done) }) }

// readPiece reads once, and has the poller watch for more.
func (r *stderrReader) readPiece() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.read(); err != nil || !r.watch.Arm() {
		r.stop()
	}
	r.Release()
}

// restReads bounds what readRest reads: a pipe holds less, unless a descendant goes on
// writing.
const restReads = 4

// readRest reads what the process has left in the pipe. So a caller that then waits for done
// need not wait for the poller. It does not block.
func (r *stderrReader) readRest() {
	if r.watch == nil || !r.mu.TryLock() { // the poller is about to read it
		return
	}
	defer r.mu.Unlock()
	defer r.Release()
	for range restReads {
		switch n, err := r.read(); {
		case err != nil:
			r.stop()
			return
		case n == 0:
			return
		}
	}
}

// readAll reads until the stream ends.
func (r *stderrReader) readAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.end()
	defer r.Release()
	for {
		if _, err := r.read(); err != nil {
			return
		}
	}
}

// read reads once. The error is that of the end; n is 0 without an error if the pipe is
// empty.
func (r *stderrReader) read() (n int, err error) {
	n, err = r.in.Read(r)
	if n > 0 {
		_, _ = r.tail.Write(r.buffer.Bytes[:n])
	}
	if errors.Is(err, pipe.ErrEmpty) {
		err = nil
	}
	return n, err
}

// Acquire implements [pipe.Space].
func (r *stderrReader) Acquire() []byte {
	if r.buffer == nil {
		r.buffer = pipe.GetBuffer(stderrBuffer)
	}
	return r.buffer.Bytes
}

// Release implements [pipe.Space].
func (r *stderrReader) Release() {
	if r.buffer != nil {
		r.buffer.Put()
		r.buffer = nil
	}
}
