package jsonrpc

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

const (
	// StrayTaken is how many bytes of a stray text are kept. It is larger than
	// MaxStrayShown, so that redaction sees a secret as a whole before the text is cut.
	StrayTaken = 4 * MaxStrayShown
	// MaxStrayShown is how many bytes of a stray text are shown.
	MaxStrayShown = 200
)

// stray is text on the stdout of a server that is not a JSON-RPC message.
type stray struct {
	text   []byte // its beginning, as the server wrote it
	reason string // why it is not a message
}

// Remarks keeps output of a server that belongs to no request: stray text and errors
// without an id. It explains starts that fail and calls that time out. Safe for concurrent
// use; only the goroutine that reads from the server adds.
type Remarks struct {
	total atomic.Uint64 // remarks so far
	// unfinished is how many bytes of a message have come whose line has not ended; 0: none.
	unfinished atomic.Int64

	mu sync.Mutex // guards the fields below
	// first is the first stray text. A text with a real reason replaces a log line.
	first stray
	// assembling: first is the beginning of a message over several lines.
	assembling bool
	last       stray
	orphan     string    // the last error without an id, if no stray text came after it
	nextLog    time.Time // the next error without an id is logged at this time or later
	begin      stray     // of the unfinished message
}

// AddStray records a stray text. assembling says that the text is the beginning of a message
// over several lines.
func (r *Remarks) AddStray(text []byte, reason string, assembling bool) {
	text = text[:min(len(text), StrayTaken)]
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.text == nil || r.assembling && assembling || r.first.reason == StrayLog && reason != StrayLog {
		r.first, r.assembling = stray{bytes.Clone(text), reason}, assembling
	}
	// Of a text over several lines, as of a usage, the first line alone says little.
	if r.total.Load() > 0 && !r.assembling && reason == StrayLog && r.first.reason == StrayLog && len(r.first.text) < MaxStrayShown {
		r.first.text = append(append(r.first.text, ' '), text...)
		r.first.text = r.first.text[:min(len(r.first.text), StrayTaken)]
	}
	r.last.text, r.last.reason, r.orphan = append(r.last.text[:0], text...), reason, ""
	r.total.Add(1)
}

// SetUnfinished notes how many bytes of a message have come while the end of its line has not. text is
// its beginning.
func (r *Remarks) SetUnfinished(text []byte, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin.text = append(r.begin.text[:0], text...)
	r.unfinished.Store(int64(bytes))
}

// LineEnded notes that the line of the unfinished message has ended.
func (r *Remarks) LineEnded() {
	if r.unfinished.Load() != 0 { // it is called for each line
		r.unfinished.Store(0)
	}
}

// unfinishedSentence describes the unfinished message; empty without one. The caller holds the mutex.
func (r *Remarks) unfinishedSentence(redactor redact.Redactor) string {
	n := r.unfinished.Load()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("the server wrote %s without a line end to its stdout: %q (a message is complete with its line feed)", display.Count(int(n), "byte"), r.begin.shown(redactor))
}

// Count returns the number of remarks so far.
func (r *Remarks) Count() uint64 { return r.total.Load() }

// Since returns the last remark as an error. If there were no more than n remarks, it returns the message
// that waits for its line end; nil without one.
func (r *Remarks) Since(n uint64, redactor redact.Redactor) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	unfinished := r.unfinishedSentence(redactor)
	switch {
	case r.Count() == n && unfinished != "":
		return fmt.Errorf("meanwhile %s", unfinished)
	case r.Count() == n:
		return nil
	case r.orphan != "":
		return fmt.Errorf("meanwhile the server sent an error that names no request: %s", r.orphan)
	}
	return fmt.Errorf("meanwhile %s", r.last.sentence(redactor))
}

// Explain returns a sentence that may explain a failed start; empty without remarks.
func (r *Remarks) Explain(redactor redact.Redactor) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	unfinished := r.unfinishedSentence(redactor)
	switch {
	case unfinished != "" && (r.first.text == nil || r.first.reason == StrayLog): // another reason says more
		return unfinished
	case r.first.text != nil:
		return r.first.sentence(redactor)
	case r.orphan != "":
		return "the server sent an error that names no request: " + r.orphan
	}
	return ""
}

// StrayOutput returns the first stray text, without secrets and control characters.
func (r *Remarks) StrayOutput(redactor redact.Redactor) mcpvisor.StrayOutput {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.text == nil {
		return mcpvisor.StrayOutput{}
	}
	return mcpvisor.StrayOutput{Text: r.first.shown(redactor), Reason: r.first.reason}
}

// sentence describes the stray text for an error.
func (s *stray) sentence(redactor redact.Redactor) string {
	return fmt.Sprintf("the server wrote to its stdout what is not JSON-RPC: %q (%s)", s.shown(redactor), s.reason)
}

// shown returns the text without control characters and secrets, cut to MaxStrayShown.
func (s *stray) shown(redactor redact.Redactor) string {
	text := strings.ReplaceAll(string(s.text), "\x00", "") // makes UTF-16 readable
	redact := redactor.Text
	if len(s.text) == StrayTaken { // it may end within a secret
		redact = redactor.Prefix
	}
	return strings.TrimSpace(display.Prefix(display.Line(redact(text)), MaxStrayShown))
}

// StrayLog is the reason of a stray text that is a log line or a banner.
const StrayLog = "logs and banners belong on stderr"

// An orphan is an error that names no request: "If there was an error in detecting the
// id in the Request object (e.g. Parse error/Invalid Request), it MUST be Null"
// (JSON-RPC 2.0, section 5). A session fails the only request in flight with it, if there
// is exactly one, after OrphanGrace: the error may be about something else, and then the
// request is still going to be answered. How it finds that request depends on the
// transport.

// OrphanGrace is how long a request waits for its answer after an orphan that may be about
// it.
const OrphanGrace = time.Second

// orphanLogInterval is the shortest time between two log lines about orphans of one
// session.
const orphanLogInterval = 10 * time.Second

// IsOrphan reports whether a line of a stream is an error that names no request: its id is
// null, or missing. Without an id it must have "jsonrpc":"2.0", because a JSON log line may
// have a member "error", too.
func IsOrphan(line []byte, env *Envelope) bool {
	return env.Method == nil && env.Result == nil && bytes.HasPrefix(env.Error, []byte("{")) &&
		(env.ID == nil && IsVersion2(line) || string(env.ID) == "null")
}

// MayFailRequest reports whether an orphan may be about a request. "Method not found"
// is about a notification of this client: the id of a request would have been readable.
func MayFailRequest(orphan *mcpvisor.Error) bool {
	code, ok := transport.ErrorCode(orphan)
	return !ok || code != sdkrpc.CodeMethodNotFound
}

// OrphanError returns the error of the request that an orphan fails. The server may work on
// the request nevertheless. The error is kept for OrphanGrace, so it has the bounds of
// transport.KeptError.
func OrphanError(orphan *mcpvisor.Error) *mcpvisor.Error {
	e := *orphan
	e.Outcome = mcpvisor.OutcomeUnknown
	e.Cause = fmt.Errorf("it names no request, and only this one was in flight: %w", transport.KeptError(orphan.Cause))
	return &e
}

// AddOrphan records an orphan that failed no request: it is counted in d, and explains
// requests that time out later. log reports whether the caller is to log text.
func (r *Remarks) AddOrphan(orphan *mcpvisor.Error, d *Discarded) (text string, log bool) {
	text = display.Shorten(display.Line(fmt.Sprint(orphan.Cause)), transport.MaxErrorText)
	d.Unmatched.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphan = text
	r.total.Add(1)
	now := time.Now()
	if log = !now.Before(r.nextLog); log {
		r.nextLog = now.Add(orphanLogInterval)
	}
	return text, log
}
