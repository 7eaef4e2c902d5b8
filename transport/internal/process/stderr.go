package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/poll"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/transport/internal/pipe"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

const (
	// maxStderrLine is the longest piece of one line that Lines returns, in bytes.
	maxStderrLine = 400
	// maxRawStderrLine is how much of a line is stored. It is more than is shown, so
	// that a secret can be found before the line is cut.
	maxRawStderrLine = 4 * maxStderrLine
)

// StderrTail keeps the first and the last lines that a server writes to stderr:
// many programs first say what is wrong, and then how they are used. "The server
// MAY write UTF-8 strings to its standard error (stderr) for logging purposes"
// (MCP, transports, stdio). So stderr is always drained, and text on it is never an
// error by itself.
//
// Lines are stored raw and cleaned when they are read: most lines of a server that
// logs much are never read. StderrTail implements io.Writer and is safe for
// concurrent use.
type StderrTail struct {
	redact           redact.Redactor // constant
	maxHead, maxTail int             // constant: how many lines head and ring hold

	mu   sync.Mutex // guards the fields below
	head [][]byte   // the first lines, raw, none of them blank
	// ring holds the last lines behind head, raw, none of them blank. When it is
	// full, next is the index of its oldest line. Buffers of dropped lines are reused.
	ring    [][]byte
	next    int
	dropped int    // lines between head and ring
	partial []byte // the line that has no end yet
}

// NewStderrTail returns a StderrTail for at most limit lines. If there are more, it
// keeps a third of limit from the beginning and the rest from the end.
func NewStderrTail(limit int, redact redact.Redactor) *StderrTail {
	limit = max(limit, 0)
	return &StderrTail{maxHead: limit / 3, maxTail: limit - limit/3, redact: redact}
}

// Write implements io.Writer. It never fails.
func (t *StderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		if room := maxRawStderrLine - len(t.partial); room > 0 {
			t.partial = append(t.partial, line[:min(len(line), room)]...)
		}
		if found {
			t.pushLocked()
		}
		p = rest
	}
	return n, nil
}

// pushLocked stores the line that has just ended. In a full ring it replaces the
// oldest line, whose buffer becomes that of the next line.
func (t *StderrTail) pushLocked() {
	switch {
	case isBlank(t.partial) || t.maxTail == 0:
		t.partial = t.partial[:0]
	case len(t.head) < t.maxHead:
		t.head, t.partial = append(t.head, t.partial), nil
	case len(t.ring) < t.maxTail:
		t.ring, t.partial = append(t.ring, t.partial), nil
	default:
		t.ring[t.next], t.partial = t.partial, t.ring[t.next][:0]
		t.next = (t.next + 1) % t.maxTail
		t.dropped++
	}
}

// linesLocked returns the first and the last lines, without secrets, and how many were dropped
// between them. With partial, the line that has no end yet is one of them.
func (t *StderrTail) linesLocked(partial bool) (first, last []string, dropped int) {
	for _, line := range t.head {
		first = append(first, t.clean(line))
	}
	for i := range t.ring {
		last = append(last, t.clean(t.ring[(t.next+i)%len(t.ring)]))
	}
	dropped = t.dropped
	if text := t.clean(t.partial); partial && text != "" {
		if last = append(last, text); len(last) > t.maxTail {
			last, dropped = last[1:], dropped+1
		}
	}
	return first, last, dropped
}

// Lines returns the kept lines, oldest first, with an unfinished one at the end.
// Secrets are redacted. Where lines were dropped, one line says how many.
func (t *StderrTail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last, dropped := t.linesLocked(true)
	switch {
	case dropped == 1:
		first = append(first, "… 1 line is left out …")
	case dropped > 1:
		first = append(first, fmt.Sprintf("… %d lines are left out …", dropped))
	}
	return append(first, last...)
}

// Snapshot returns the kept lines that have ended, and how many there were. With ended,
// the stream has ended, and its last line needs no line break. Secrets are redacted.
func (t *StderrTail) Snapshot(ended bool) monitor.ServerStderr {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last, dropped := t.linesLocked(ended)
	total := int64(len(first) + dropped + len(last))
	if dropped == 0 { // no gap
		first, last = nil, append(first, last...)
	}
	return monitor.ServerStderr{Total: total, First: first, Lines: last}
}

// clean makes a raw line printable: without colours, redacted, without control characters,
// and cut at maxStderrLine. A line that fills its buffer may end within a secret.
func (t *StderrTail) clean(raw []byte) string {
	redact := t.redact.Text
	if len(raw) >= maxRawStderrLine {
		redact = t.redact.Prefix
	}
	return strings.TrimSpace(display.Prefix(display.Line(redact(display.WithoutColors(string(raw)))), maxStderrLine))
}

// isBlank reports whether clean would return nothing. It stops at the first
// character that clean keeps.
func isBlank(line []byte) bool {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if !unicode.IsSpace(r) && !display.IsUnsafe(r) {
			return false
		}
		line = line[size:]
	}
	return true
}

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

	// mu is held by the reader: a goroutine of its own, that of the poller, or that of
	// readRest. It guards the fields below.
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

// stop ends the reading by the poller. It is called before the pipe is closed, which ends
// the reading by a goroutine.
func (r *stderrReader) stop() {
	if r.watch != nil {
		r.end() // before Remove, which takes longer than those who wait for done should
		r.watch.Remove()
	}
}

func (r *stderrReader) end() { r.once.Do(func() { close(r.done) }) }

// readPiece reads once, and lets the poller watch for more.
func (r *stderrReader) readPiece() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.read(); err != nil || !r.watch.Arm() {
		r.stop()
	}
	r.Release()
}

// restReads bounds what readRest reads: a pipe holds less, unless a descendant continues
// to write.
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

// read reads once. An error means the end of the stream. If the pipe is empty, n is 0 and
// there is no error.
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
