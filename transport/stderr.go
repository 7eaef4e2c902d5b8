package transport

import (
	"bytes"
	"fmt"
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

// stderrTail keeps the first and the last lines of what is written to it: many
// programs say first what is wrong, and then how they are meant to be used. "The
// server MAY write UTF-8 strings to its standard error for logging purposes" (MCP,
// transports, stdio): it must always be drained, and is never by itself an
// error.
//
// Lines are kept as they were written, and cleaned when they are read: most
// lines of a server that writes much are never read.
type stderrTail struct {
	mu   sync.Mutex
	veil veil
	// headMax and tailMax are how many lines head and ring hold.
	headMax, tailMax int
	// head holds the first lines, raw and none of them blank.
	head [][]byte
	// ring holds the last lines after those, raw and none of them blank. When it
	// is full, its oldest line is at next. The buffers of dropped lines are used
	// again.
	ring    [][]byte
	next    int
	dropped int // lines between head and ring
	partial []byte
}

// newStderrTail keeps at most limit lines: of more, a third at the beginning.
func newStderrTail(limit int, v veil) *stderrTail {
	limit = max(limit, 0)
	return &stderrTail{headMax: limit / 3, tailMax: limit - limit/3, veil: v}
}

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

// pushLocked keeps the line that has just ended. In a full ring it takes the
// place of the oldest line, whose buffer is used for the next one.
func (t *stderrTail) pushLocked() {
	switch {
	case isBlank(t.partial) || t.tailMax == 0:
		t.partial = t.partial[:0]
	case len(t.head) < t.headMax:
		t.head, t.partial = append(t.head, t.partial), nil
	case len(t.ring) < t.tailMax:
		t.ring, t.partial = append(t.ring, t.partial), nil
	default:
		t.ring[t.next], t.partial = t.partial, t.ring[t.next][:0]
		t.next = (t.next + 1) % t.tailMax
		t.dropped++
	}
}

// lines returns the kept lines, oldest first, an unfinished one included. Where
// lines are missing, a line says how many.
func (t *stderrTail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var head, tail []string
	for _, line := range t.head {
		head = append(head, t.clean(line))
	}
	for i := range t.ring {
		tail = append(tail, t.clean(t.ring[(t.next+i)%len(t.ring)]))
	}
	dropped := t.dropped
	if text := t.clean(t.partial); text != "" {
		if tail = append(tail, text); len(tail) > t.tailMax {
			tail, dropped = tail[1:], dropped+1
		}
	}
	switch {
	case dropped == 1:
		head = append(head, "… 1 line is left out …")
	case dropped > 1:
		head = append(head, fmt.Sprintf("… %d lines are left out …", dropped))
	}
	return append(head, tail...)
}

func (t *stderrTail) clean(b []byte) string {
	hide := t.veil.text
	if len(b) >= stderrLineTaken {
		hide = t.veil.part
	}
	return strings.TrimSpace(cutAt(plain(hide(string(b))), stderrLineMax))
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
