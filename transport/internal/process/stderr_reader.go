package process

import (
	"io"

	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
)

// stderrBuffer is how much of stderr is read at a time, in bytes. A server that floods its
// stderr costs few reads, and a silent one holds no buffer.
const stderrBuffer = 32 << 10

// stderrReader reads the stderr of a process into its tail. The goroutine that reads owns
// it.
type stderrReader struct {
	tail   *StderrTail
	buffer *pipe.Buffer // nil while there is nothing to read
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

// readAll reads until the stream ends.
func (r *stderrReader) readAll(stream io.Reader) {
	defer r.Release()
	for in := pipe.NewReader(stream); ; {
		n, err := in.Read(r)
		if n > 0 {
			_, _ = r.tail.Write(r.buffer.Bytes[:n])
		}
		if err != nil {
			return
		}
	}
}
