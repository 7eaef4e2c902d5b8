package transport

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// stderrLineMax is the longest piece of one stderr line that is kept.
const stderrLineMax = 400

// stderrLineTaken is how much of a line is looked at, so that a secret in it is
// not cut in two before it is hidden.
const stderrLineTaken = 4 * stderrLineMax

// stderrTail keeps the last lines of what is written to it. "The server MAY
// write UTF-8 strings to its standard error for logging purposes" (MCP,
// transports, stdio): it must always be drained, and is never by itself an
// error.
//
// Lines are kept as they were written, and cleaned when they are read: most
// lines of a server that writes much are never read.
type stderrTail struct {
	mu    sync.Mutex
	limit int
	veil  veil
	// ring holds the last lines, raw and none of them blank. When it is full, its
	// oldest line is at next. The buffers of dropped lines are used again.
	ring    [][]byte
	next    int
	partial []byte
}

func newStderrTail(limit int, v veil) *stderrTail { return &stderrTail{limit: limit, veil: v} }

// Write implements io.Writer. It never fails.
func (t *stderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		if room := stderrLineTaken - len(t.partial); room > 0 {
			t.partial = append(t.partial, line[:min(len(line), room)]...)
		}
		if found {
			t.pushLocked()
		}
		p = rest
	}
	return n, nil
}

// pushLocked moves the line that has just ended into the ring, and takes the
// buffer of the line that it replaces for the next one.
func (t *stderrTail) pushLocked() {
	switch {
	case isBlank(t.partial) || t.limit <= 0:
		t.partial = t.partial[:0]
	case len(t.ring) < t.limit:
		t.ring, t.partial = append(t.ring, t.partial), nil
	default:
		t.ring[t.next], t.partial = t.partial, t.ring[t.next][:0]
		t.next = (t.next + 1) % t.limit
	}
}

// lines returns the kept lines, oldest first, an unfinished one included.
func (t *stderrTail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for i := range t.ring {
		out = append(out, t.clean(t.ring[(t.next+i)%len(t.ring)]))
	}
	if text := t.clean(t.partial); text != "" {
		out = append(out, text)
	}
	return out[max(0, len(out)-t.limit):]
}

func (t *stderrTail) clean(b []byte) string {
	return strings.TrimSpace(cutAt(plain(t.veil.text(string(b))), stderrLineMax))
}

// isBlank reports whether clean leaves nothing of a line. It looks no further
// than to the first character that stays.
func isBlank(line []byte) bool {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if !unicode.IsSpace(r) && !display.Unsafe(r) {
			return false
		}
		line = line[size:]
	}
	return true
}

// cutAt is the beginning of a text, of at most size bytes.
func cutAt(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// plain makes a server's text fit to be shown, on one line.
func plain(text string) string { return display.Line(text) }
