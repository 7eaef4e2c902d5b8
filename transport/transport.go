package transport

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Dialer makes the sessions of one registration, one after the other. It may
// remember what earlier sessions taught it. Safe for concurrent use.
type Dialer interface {
	// NewSession prepares the next session. It starts nothing.
	NewSession() Session
}

// Session is one incarnation of a server. Safe for concurrent use.
//
// A session dies once, of the first cause that is noticed: its process
// ends, its stream breaks, or Abort is called. From then on every Request
// fails, those under way included. Release follows when the process group is
// reaped, or the connections are closed, and every goroutine has returned.
type Session interface {
	// Open spawns or connects and negotiates the protocol. It is called at most
	// once. When it fails the session is dead, with the same cause, and on its
	// way to release. The error is a *supervisor.Cause.
	Open(ctx context.Context) error

	// OnNotice sets who is told what the server tells without being asked. It is
	// called before Open; tell is called by the goroutine that reads from the server, one at a
	// time, and must not block.
	OnNotice(tell func(Notice))

	// Request sends one request and returns the result member of the answer,
	// verbatim. It returns when the answer came, when ctx ended, or when the
	// session died, whichever is first. The error is a *mcpvisor.Error with Kind,
	// Outcome, Cause and Stderr filled in; the rest is the caller's.
	Request(ctx context.Context, r Request) (json.RawMessage, error)

	// Abort ends the session with the given cause, unless it is dead already.
	// It returns at once; shutdown runs behind it and is bounded.
	Abort(cause *supervisor.Cause)

	// Dead is closed when the session is known to have ended.
	Dead() <-chan struct{}
	// Cause is why, or nil while Dead is open.
	Cause() *supervisor.Cause
	// Released is closed when nothing of the session is left. It follows Dead,
	// also for a session that was never opened.
	Released() <-chan struct{}
	// Left says, after Released, what could not be ended, as a process that may not
	// be killed; nil is the rule.
	Left() error

	// Info describes the session; most of it is known after Open.
	Info() mcpvisor.SessionInfo
	// LastReceived is when the server last sent anything; zero if never. It has a
	// monotonic reading: time.Since of it does not depend on the wall clock.
	LastReceived() time.Time
}

// InputSchemaChecker is a [Session] whose transport makes demands on the input schemas of
// tools: Streamable HTTP of 2026-07-28 sends some arguments in headers.
type InputSchemaChecker interface {
	// CheckInputSchema returns why a tool with this input schema cannot be called over the
	// session. Such a tool is not offered.
	CheckInputSchema(schema json.RawMessage) error
}

// Speaker is a [Session] whose server writes to stderr.
type Speaker interface {
	// Stderr returns the first and the last lines of it so far, as
	// supervisor.Cause has them.
	Stderr() []string
}

// StderrOf is what the server of a session has written to stderr so far; nil if
// there is no such stream.
func StderrOf(s Session) []string {
	if speaker, ok := s.(Speaker); ok {
		return speaker.Stderr()
	}
	return nil
}

// Request is one request of ours to a server.
type Request struct {
	// Method is the JSON-RPC method, as in "tools/call".
	Method string
	// Target is what the request is about: the tool's or prompt's name, or the
	// resource's URI. Streamable HTTP of 2026-07-28 repeats it in a header.
	Target string
	// Params is a JSON object without "_meta", or empty. The session adds _meta
	// where the protocol version wants it.
	Params json.RawMessage
	// Timeout bounds the time without progress, beside the context; 0 means no
	// bound. It is kept by the session, without a timer for each request, and may
	// come a few milliseconds late. The error is of KindTimeout.
	Timeout time.Duration
	// TotalTimeout is the same for the request as a whole, whatever progress it makes.
	TotalTimeout time.Duration
	// Track asks the server for progress notifications. Each restarts Timeout.
	Track bool
	// LogLevel is what the server may log about the request, since 2026-07-28 (MCP,
	// utilities, logging); empty means nothing. Before that it is set for the whole
	// session, with logging/setLevel.
	LogLevel string
	// Progress, if set, gets them with Track, in order, in the goroutine that
	// called Request and before that returns.
	Progress func(mcpvisor.Progress)
	// Held, if set, gets what a large result holds of Limits.Buffer; the caller that set it
	// releases it. Otherwise that is released when Request returns.
	Held *budget.Share
	// Stream, if set, says that the request is one that stays open to hear of
	// things (2026-07-28, subscriptions/listen), and not one to be answered.
	Stream *Stream
}

// Stream is about a request that stays open until its context ends.
type Stream struct {
	// Sent, if set, gets the id of the request before it leaves: the notifications
	// of the stream name it.
	Sent func(id int64)
	// CancelGrace is how long an answer to the cancellation is waited for, where
	// closing a connection does not end the stream by itself. There need not be
	// one; servers that give one have left nothing to do.
	CancelGrace time.Duration
}

// Options are what a dialer needs beside the specification.
type Options struct {
	// ClientInfo is how this client names itself to servers. Required.
	ClientInfo *mcp.Implementation
	// Handlers are what servers may ask of this client.
	Handlers Handlers
	// Buffer is what the large messages of all servers may hold at a time; nil means
	// without bound.
	Buffer *budget.Budget
	// Logger gets what is worth a line but is no event.
	Logger zerolog.Logger
}
