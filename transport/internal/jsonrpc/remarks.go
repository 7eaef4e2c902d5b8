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
	// StrayTaken is how much of a stray text is looked at, and strayMax how much
	// is shown, in bytes. A secret is not cut in two before it is hidden.
	StrayTaken = 4 * MaxStrayShown
	// MaxStrayShown is how much of a stray text is shown, in bytes.
	MaxStrayShown = 200
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
	orphan     string    // the last error without an id; it came after last, unless that is empty
	nextLog    time.Time // the next error without an id is logged at this time or later
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
	return strings.TrimSpace(display.Prefix(display.Line(redactor.Text(text)), MaxStrayShown))
}

const (
	// StrayLog is the reason of a stray text that explains nothing.
	StrayLog = "logs and banners belong on stderr"
)

// An orphan is an error that names no request: "If there was an error in detecting the
// id in the Request object (e.g. Parse error/Invalid Request), it MUST be Null"
// (JSON-RPC 2.0, section 5). A session fails the only request in flight with it, if
// there is exactly one. How it finds that request depends on the transport.

// orphanLogInterval is the shortest time between two log lines about orphans of one
// session.
const orphanLogInterval = 10 * time.Second

// IsOrphan reports whether a line of a stream is an error that names no request. A log
// line in JSON may have an error, too; it has neither an id nor the protocol version.
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

// AddOrphan records an orphan that failed no request: it is counted in d, and explains
// requests that time out later. log reports whether the caller is to log text.
func (r *Remarks) AddOrphan(orphan *mcpvisor.Error, d *Discarded) (text string, log bool) {
	text = display.Shorten(display.Line(fmt.Sprint(orphan.Cause)), MaxErrorText)
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
