package process

import (
	"errors"
	"os"
	"sync"

	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
	"github.com/mcpvisor/mcpvisor/transport/internal/poll"
)

// stderrBuffer is how much of stderr is read at a time, in bytes. A server that floods its
// stderr costs few reads, and a silent one holds no buffer.
const stderrBuffer = 32 << 10

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

	// Owned by the goroutine that reads, or by that of the poller.
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
		r.watch.Remove()
		r.end()
	}
}

func (r *stderrReader) end() { r.once.Do(func() { close(r.done) }) }

// readPiece reads once, and has the poller watch for more.
func (r *stderrReader) readPiece() {
	err := r.read()
	r.Release()
	if err == nil && r.watch.Arm() {
		return
	}
	r.watch.Remove()
	r.end()
}

// readAll reads until the stream ends.
func (r *stderrReader) readAll() {
	defer r.end()
	defer r.Release()
	for r.read() == nil {
	}
}

// read reads once. The error is that of the end.
func (r *stderrReader) read() error {
	n, err := r.in.Read(r)
	if n > 0 {
		_, _ = r.tail.Write(r.buffer.Bytes[:n])
	}
	if errors.Is(err, pipe.ErrEmpty) {
		return nil
	}
	return err
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
