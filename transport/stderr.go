package transport

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
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
type stderrTail struct {
	mu      sync.Mutex
	limit   int
	veil    veil
	ring    []string
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

func (t *stderrTail) pushLocked() {
	text := t.clean(t.partial)
	t.partial = t.partial[:0]
	if text == "" {
		return
	}
	if len(t.ring) >= t.limit {
		t.ring = append(t.ring[:0], t.ring[len(t.ring)-t.limit+1:]...)
	}
	t.ring = append(t.ring, text)
}

// lines returns the kept lines, oldest first, an unfinished one included.
func (t *stderrTail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := append([]string(nil), t.ring...)
	if text := t.clean(t.partial); text != "" {
		out = append(out, text)
	}
	return out[max(0, len(out)-t.limit):]
}

func (t *stderrTail) clean(b []byte) string {
	return strings.TrimSpace(cutAt(plain(t.veil.text(string(b))), stderrLineMax))
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

// plain makes a server's text fit to be shown: one line of valid UTF-8 without
// control characters, so that it neither forges a line of a log nor reaches an
// operator's terminal as an escape, and without the marks that turn the
// direction of what follows.
func plain(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}
