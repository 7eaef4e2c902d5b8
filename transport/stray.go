package transport

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

const (
	// StrayTaken is how much of a stray text is looked at, and strayMax how much
	// is shown, in bytes. A secret is not cut in two before it is hidden.
	StrayTaken    = 4 * maxStrayShown
	maxStrayShown = 200
)

// stray is what a server wrote to its stdout that is no message of JSON-RPC.
type stray struct {
	text   []byte // the beginning, as it was written
	reason string
}

// Remarks are what a server sent that belongs to no request: stray text, the
// first and the last, but rather one that tells a reason than a line of a log; and
// errors without an id. They explain starts that fail and calls that time out.
// Safe for concurrent use; one goroutine adds.
type Remarks struct {
	total atomic.Uint64

	mu    sync.Mutex
	first stray
	// assembling: first is the beginning of a message over several lines.
	assembling bool
	last       stray
	orphan     string // the last error without an id; it came after last, unless that is empty
}

// AddStray records a stray text. assembling says that it is a message over several
// lines as far as it has been read.
func (r *Remarks) AddStray(text []byte, reason string, assembling bool) {
	text = text[:min(len(text), StrayTaken)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.text == nil || r.assembling && assembling || r.first.reason == StrayLog && reason != StrayLog {
		r.first, r.assembling = stray{bytes.Clone(text), reason}, assembling
	}
	r.last.text, r.last.reason, r.orphan = append(r.last.text[:0], text...), reason, ""
	r.total.Add(1)
}

// AddOrphan records an error that names no request.
func (r *Remarks) AddOrphan(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphan = text
	r.total.Add(1)
}

// Count is how many there were so far.
func (r *Remarks) Count() uint64 { return r.total.Load() }

// Since is the last remark, if there was one after the first n.
func (r *Remarks) Since(n uint64, redactor redact.Redactor) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.Count() == n:
		return nil
	case r.orphan != "":
		return fmt.Errorf("meanwhile the server sent an error that names no request: %s", r.orphan)
	}
	return fmt.Errorf("meanwhile %s", r.last.sentence(redactor))
}

// Explain explains a start that failed; empty if there were no remarks.
func (r *Remarks) Explain(redactor redact.Redactor) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.first.text != nil:
		return r.first.sentence(redactor)
	case r.orphan != "":
		return "the server sent an error that names no request: " + r.orphan
	}
	return ""
}

// StrayOutput is the first stray text, fit to be shown.
func (r *Remarks) StrayOutput(redactor redact.Redactor) mcpvisor.StrayOutput {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.text == nil {
		return mcpvisor.StrayOutput{}
	}
	return mcpvisor.StrayOutput{Text: r.first.shown(redactor), Reason: r.first.reason}
}

func (s *stray) sentence(redactor redact.Redactor) string {
	return fmt.Sprintf("the server wrote to its stdout what is not JSON-RPC: %q (%s)", s.shown(redactor), s.reason)
}

// shown is the text without control characters and secrets.
func (s *stray) shown(redactor redact.Redactor) string {
	text := strings.ReplaceAll(string(s.text), "\x00", "") // of UTF-16 the letters are left
	return strings.TrimSpace(display.Prefix(display.Line(redactor.Text(text)), maxStrayShown))
}

// The likely reasons of stray text.
const (
	strayDocker   = "the stream has the headers of docker's attach protocol; run the container with -i and without -t"
	strayUTF16    = "it is UTF-16; messages are UTF-8"
	strayLength   = "it frames messages with Content-Length, as LSP does; MCP has one message per line"
	strayPrefixed = "text stands in front of the message in its line: messages are prefixed, or a banner has no line end"
	strayANSI     = "it holds ANSI escape codes; turn colours off, as with NO_COLOR=1"
	strayQuestion = "it asks a question and waits for the answer; start it so that it does not ask, as with npx -y"
	strayLines    = "a message is written over several lines; each must be one line"
	StrayLog      = "logs and banners belong on stderr"
)

// strayReason guesses why a text is no message. ended says that its line has
// ended.
func strayReason(text []byte, ended bool) string {
	text = text[:min(len(text), StrayTaken)]
	brace := bytes.IndexByte(text, '{')
	switch {
	case len(text) >= 8 && text[0] <= 2 && text[1] == 0 && text[2] == 0 && text[3] == 0:
		return strayDocker
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")), 3*bytes.Count(text, []byte{0}) > len(text):
		return strayUTF16
	case len(text) >= 15 && bytes.EqualFold(text[:15], []byte("content-length:")):
		return strayLength
	case brace > 0 && bytes.Contains(text[brace:], []byte(`"jsonrpc"`)):
		return strayPrefixed
	case asksQuestion(text, ended):
		return strayQuestion
	case bytes.IndexByte(text, '\x1b') >= 0:
		return strayANSI
	}
	return StrayLog
}

// questionMarks are how prompts end, in lower case.
var questionMarks = []string{"?", "(y)", "(y/n)", "[y/n]", "(yes/no)", "[yes/no]", "password:", "passphrase:", "press enter", "to continue"}

// asksQuestion reports whether a text looks like a prompt. Most wait for the
// answer in the same line.
func asksQuestion(text []byte, ended bool) bool {
	lower := strings.ToLower(strings.TrimRight(string(text), " \t:>.…"))
	if !ended && strings.Contains(lower, "? ") {
		return true
	}
	for _, mark := range questionMarks {
		if strings.HasSuffix(lower, strings.TrimRight(mark, ":")) {
			return true
		}
	}
	return false
}

// junk records a line that is no message.
func (w *wire) junk(line []byte) {
	w.noise.Malformed.Add(1)
	switch w.several.add(line) {
	case severalNone:
		w.remarks.AddStray(line, strayReason(line, true), false)
	case severalBegun:
		w.remarks.AddStray(w.several.text, strayLines, true)
	case severalComplete:
		w.remarks.AddStray(w.several.text, strayLines, true)
		w.failSeveral()
		w.several.reset()
	}
}

// unfinished is told of a line as far as it has been read, when there is no more
// of it for the moment. A message begins with a brace; a prompt has no line end.
func (w *wire) unfinished(line []byte) {
	text := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(text) > 0 && text[0] != '{' && text[0] != '[' && !bytes.HasPrefix(byteOrderMark, text) {
		w.remarks.AddStray(line, strayReason(line, false), false)
	}
}
