package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Dialer makes the sessions of one registration. It may remember what earlier sessions
// learned about the server. Safe for concurrent use.
type Dialer interface {
	// NewSession makes the next session. It starts no goroutine and does no I/O; Open does.
	NewSession() Session
}

// Keeper is a [Dialer] that can keep something from the end of a session to the next one,
// so that a server is restarted sooner.
type Keeper interface {
	// Keep is called while a session is open that another one may follow. It does not block.
	Keep()
	// Idle is called when no session is expected to follow soon, and after the last one. It
	// does not block, but returns what is left to do, which may; nil if nothing.
	Idle() (finish func())
}

// Session is one incarnation of a server. Safe for concurrent use.
//
// A session ends once, with the first cause: its process ends, its stream breaks, or Abort
// is called. From then on every Request fails, also those in flight. The session is
// released when its process group is reaped, its connections are closed and all its
// goroutines have returned.
type Session interface { //nolint:interfacebloat // the one contract between actors and transports
	// SetEpoch, before Open, says which incarnation of the registration this is.
	SetEpoch(epoch uint64)

	// Open starts the server or connects to it, and negotiates the protocol version. It is
	// called at most once. If it fails, the session has ended with the same cause, and its
	// release follows. The error is a *supervisor.Cause.
	Open(ctx context.Context) error

	// OnNotice sets the function that gets the notices of the server. It is called before
	// Open. The goroutines that read from the server call notify, one at a time; it must
	// not block.
	OnNotice(notify func(Notice))

	// OnServerRequest sets the function that observes the requests of the server. It is
	// called before Open.
	OnServerRequest(observe ServerRequestObserver)

	// Request sends one request and returns the result member of the answer verbatim. It
	// returns when the answer has come, when a deadline of r has passed, when ctx ends or
	// when the session ends. The error is a *mcpvisor.Error with Kind, Outcome, Cause and
	// Stderr; the caller sets the other fields. Request neither changes r.Params nor keeps
	// them after it has returned.
	Request(ctx context.Context, r Request) (json.RawMessage, error)

	// AnswerInputs answers inputRequests, what a task of the server waits for, by the handlers of the
	// caller, or of the host, and returns inputResponses. The error is a *mcpvisor.Error, or that of
	// the context or the session.
	AnswerInputs(ctx context.Context, caller *Caller, requests json.RawMessage) (responses json.RawMessage, err error)

	// CheckInputSchema returns why a tool with this input schema cannot be called over the
	// session; nil if it can: Streamable HTTP of 2026-07-28 sends some arguments in headers.
	// Discovery leaves out a tool that cannot be called. kept is how many bytes UseTools
	// will keep for the tool.
	CheckInputSchema(schema json.RawMessage) (kept int, err error)

	// UseTools is called with the tools that discovery has accepted, before any of them is
	// called. partial says that the list could not be read to its end: then the tools
	// replace earlier ones only if there are none.
	UseTools(tools []mcpvisor.Tool, partial bool)

	// ToolSettings returns how the tools of the session are to be offered: discovery changes what the server lists,
	// and calls are mapped back. nil: as the session lists them, also where the other end has changed them already.
	ToolSettings() map[string]mcpvisor.ToolSetting

	// Abort ends the session with the given cause, unless it has ended already. It returns
	// at once; the shutdown runs in the background and is bounded by Timeouts.Shutdown.
	Abort(cause *supervisor.Cause)

	// Kill is Abort without the grace of Timeouts.Shutdown, where the server has one. It also
	// cuts the grace of a shutdown that has begun.
	Kill(cause *supervisor.Cause)

	// Dead returns a channel that is closed when the session has ended.
	Dead() <-chan struct{}
	// Cause returns why the session ended; nil before Dead is closed.
	Cause() *supervisor.Cause
	// Released returns a channel that is closed when nothing of the session is left. It is
	// closed after Dead, also for a session that was never opened.
	Released() <-chan struct{}
	// OnDead has f called once when the session has ended, after Dead is closed; OnReleased
	// has f called once when Released is closed, after the functions of OnDead. Each is
	// called at once if that has happened already. The goroutine that ends or releases the
	// session calls f, so f must neither block nor panic. It saves a goroutine that waits.
	OnDead(f func())
	OnReleased(f func())
	// Left returns, after Released, what could not be ended, such as a process that this
	// user may not kill; usually nil.
	Left() error

	// Info describes the session. Most fields are set by Open.
	Info() mcpvisor.SessionInfo
	// Stateless reports whether the server may be restarted unseen: no request names a session.
	Stateless() bool
	// LastReceived returns when the last complete message of the server arrived; zero if none. The time has
	// a monotonic reading, so time.Since does not depend on the wall clock.
	LastReceived() time.Time
	// InFlight returns the requests that have not ended, streams excepted, in no order.
	InFlight() []InFlight
	// CancelRequest ends a request of InFlight, or its wait for input, by its ID as the end of its context does, with [ErrByOperator] as the cause.
	// It reports false if no such request is in flight.
	CancelRequest(id int64) bool
	// Stderr returns the first and the last lines of stderr so far; see
	// supervisor.Cause.Stderr.
	Stderr() []string
	// StderrTail returns the lines of stderr that have ended, and how many there were. Of the
	// result, Epoch and Ended are not set.
	StderrTail() monitor.ServerStderr
	// RedactJSON returns a JSON value without the secrets of the specification and the tokens
	// in use. One that has none is returned as it is.
	RedactJSON(raw json.RawMessage) json.RawMessage
}

// ServerRequestObserver is called before a request of the server is answered, in the
// goroutine that answers it. The handler of the host gets the context that it returns. end
// is called with the result as JSON, or with the error of the handler. params must not be
// kept beyond end.
type ServerRequestObserver func(ctx context.Context, method string, params json.RawMessage) (next context.Context, end func(result json.RawMessage, err error))

// Base has the methods of [Session] that not every transport needs. Embed it.
type Base struct{}

// SetEpoch implements [Session]: the server is not told.
func (Base) SetEpoch(uint64) {}

// OnServerRequest implements [Session]: the server sends no requests.
func (Base) OnServerRequest(ServerRequestObserver) {}

// CheckInputSchema implements [Session]: every schema passes.
func (Base) CheckInputSchema(json.RawMessage) (int, error) { return 0, nil }

// UseTools implements [Session].
func (Base) UseTools([]mcpvisor.Tool, bool) {}

// ToolSettings implements [Session]: there are none.
func (Base) ToolSettings() map[string]mcpvisor.ToolSetting { return nil }

// RedactJSON implements [Session]: there are no secrets.
func (Base) RedactJSON(raw json.RawMessage) json.RawMessage { return raw }

// AnswerInputs implements [Session]: the host has no handlers.
func (Base) AnswerInputs(context.Context, *Caller, json.RawMessage) (json.RawMessage, error) {
	return nil, &mcpvisor.Error{Kind: mcpvisor.ErrInputRequired, Outcome: mcpvisor.OutcomeUnknown}
}

// Stateless implements [Session]: a restart is seen.
func (Base) Stateless() bool { return false }

// Stderr implements [Session]: the server has no stderr.
func (Base) Stderr() []string { return nil }

// StderrTail implements [Session].
func (Base) StderrTail() monitor.ServerStderr { return monitor.ServerStderr{} }

// InFlight implements [Session].
func (Base) InFlight() []InFlight { return nil }

// CancelRequest implements [Session].
func (Base) CancelRequest(int64) bool { return false }

// InFlight describes a request that has not ended.
type InFlight struct {
	Method, Target string // as in Request
	Began          time.Time
	ID             int64 // for CancelRequest; 0: the request cannot be canceled now
}

// ErrByOperator is the cause of a request that CancelRequest has ended. It is a context.Canceled.
var ErrByOperator error = byOperator{}

type byOperator struct{}

func (byOperator) Error() string { return "an operator canceled the call" }

func (byOperator) Unwrap() error { return context.Canceled }

// Request is one request of this client to a server.
type Request struct {
	// Method is the JSON-RPC method, as in "tools/call".
	Method string
	// Target is the name of the tool or prompt, the URI of the resource, or the id of the
	// task, which is a secret. Streamable HTTP of 2026-07-28 repeats it in a header.
	Target string
	// Params is a JSON object without "_meta", or empty. The session adds _meta where the
	// protocol version requires it.
	Params json.RawMessage
	// Meta holds further members of _meta, as a JSON object; nil for none. None of them has
	// the name of a member that the session sets.
	Meta json.RawMessage
	// AsTask: the params ask for a task (MCP 2025-11-25, "task"), so the result may be one.
	AsTask bool
	// ID, if set, gets the id of the request before it is sent, and before each later round.
	ID *int64
	// Began is when the request was made; zero means now. Timeout and TotalTimeout count
	// from then, or from RoundBegan if that is set: the session sets it when it repeats the
	// request with input for the server.
	Began, RoundBegan time.Time
	// Timeout bounds the time without progress, in addition to the context; 0 means no
	// limit. One timer of the session serves all requests, so the timeout may come a few
	// milliseconds late. The error has ErrTimeout.
	Timeout time.Duration
	// TotalTimeout bounds the request as a whole, whatever progress it makes; 0 means no
	// limit.
	TotalTimeout time.Duration
	// Track requests progress notifications. Each of them restarts Timeout.
	Track bool
	// LogLevel is the lowest level of the log messages about this request, since 2026-07-28
	// (MCP, utilities, logging); empty means no log messages. In the legacy era the level
	// is set for the whole session with logging/setLevel, and this field is ignored.
	LogLevel string
	// Progress, if set, gets the progress notifications of a request with Track, in order.
	// It is called in the goroutine that called Request, before Request returns.
	Progress func(mcpvisor.Progress)
	// Waited, if set, is called before a request is sent that had to wait for its turn. Its error, a
	// *mcpvisor.Error, refuses the request. It must not block.
	Waited func() error
	// Caller is the caller that the request is made for; nil: the host itself.
	Caller *Caller
	// Held, if set, gets the share of Limits.MaxBufferBytes that a large result holds; the
	// caller releases it. If nil, Request releases the share when it returns.
	Held *budget.Share
	// Stream, if set, makes the request a stream of notifications that stays open until its
	// context ends (2026-07-28, subscriptions/listen).
	Stream *Stream
}

// Stream describes a request that stays open until its context ends.
type Stream struct {
	// Sent, if set, gets the id of the request before it is sent. The notifications of the
	// stream name this id.
	Sent func(id int64)
	// Cancelled, if set, is called after the context has ended, when the cancellation
	// precedes all messages that are sent later, on a transport where Request then waits
	// for CancelGrace. It must not block.
	Cancelled func()
	// CancelGrace is how long Request waits for an answer after it cancelled the stream,
	// on a transport where closing a connection does not end the stream. Servers need not
	// answer; an answer proves that the server has ended the stream.
	CancelGrace time.Duration
}

// Options configures a dialer, in addition to the specification.
type Options struct {
	// ClientInfo is how this client names itself to servers. Required.
	ClientInfo *mcp.Implementation
	// Handlers answer the requests of servers.
	Handlers Handlers
	// Buffer bounds the bytes that the large messages of all servers together hold; nil
	// means no limit.
	Buffer *budget.Budget
	// Logger gets diagnostics that are not events.
	Logger zerolog.Logger
	// TakeLegacy reports whether a session that begins now is of EraLegacy if the spec leaves that open; nil: no.
	TakeLegacy func() bool
}

// Notice is a notification of a server that concerns the session as a whole, or a gap in
// these notifications. Progress notifications belong to a request and are not notices.
type Notice struct {
	Kind NoticeKind
	// Lists is set for ListChanged.
	Lists catalog.Lists
	// URI is set for ResourceUpdated.
	URI string
	// Log is set for LogMessage.
	Log *mcpvisor.LogMessage
	// Honored is set for Acknowledged: the URIs of the resources that the server watches.
	Honored []string
	// Tasks is set for Acknowledged: the ids of the tasks about whose changes the server
	// sends notifications. Task is set for TaskChanged: the id of the task. Both are secrets.
	Tasks []string
	Task  string
	// Stream is set for Acknowledged: the id of the listen request, see [Stream.Sent]; 0 if
	// the server does not name it.
	Stream int64
}

// NoticeKind is the kind of a notice.
type NoticeKind uint8

// The notices of MCP, utilities and server features.
const (
	// ListChanged: notifications/{tools,resources,prompts}/list_changed.
	ListChanged NoticeKind = iota + 1
	// ResourceUpdated: notifications/resources/updated.
	ResourceUpdated
	// LogMessage: notifications/message.
	LogMessage
	// Acknowledged: notifications/subscriptions/acknowledged (2026-07-28), the first
	// message on a stream that was opened with subscriptions/listen.
	Acknowledged
	// TaskChanged: notifications/tasks (2026-07-28, the extension for tasks) and
	// notifications/tasks/status (MCP 2025-11-25, tasks). What they say of the task is not
	// read: the waiting goroutine asks.
	TaskChanged
	// Gap: notifications may have been lost, because the stream that carries them broke and
	// was opened again. The session makes this notice itself.
	Gap
)

// Authorization returns the authorizer of a dialer; nil if its spec has no Auth.
func Authorization(d Dialer) mcpvisor.Authorizer {
	if h, ok := d.(interface{ Authorizer() mcpvisor.Authorizer }); ok {
		return h.Authorizer()
	}
	return nil
}

// ProbeMethod returns the method of a request that any live server answers: ping in the legacy
// era, and server/discover in the modern era, which has no ping.
func ProbeMethod(era mcpvisor.Era) string {
	if era == mcpvisor.EraModern {
		return "server/discover"
	}
	return "ping"
}

// Probe asks the server whether it is alive. Any JSON-RPC answer in the session proves that it
// is, also an error. Over HTTP a status is no answer, except for 429, if a probe of the session
// has succeeded before; 502, 503, 504 and a web page never are. The error of Probe says why
// there was no answer.
func Probe(ctx context.Context, s Session) error {
	_, err := s.Request(ctx, Request{Method: ProbeMethod(s.Info().Era)})
	if e, ok := errors.AsType[*mcpvisor.Error](err); ok && (e.Outcome == mcpvisor.OutcomeAnswered || e.Kind == mcpvisor.ErrRPC) {
		return nil
	}
	return err
}

// ProbeCause returns the cause for ending a session after this number of failed probes. err
// is the error of the last probe. Over HTTP it may have a method Problem that explains the
// failure, such as an expired certificate or a proxy that rejects requests.
func ProbeCause(failures int, err error) *supervisor.Cause {
	c := &supervisor.Cause{Kind: supervisor.CauseProbe, Err: err,
		Message: "server did not answer a liveness probe"}
	if failures > 1 {
		c.Message = fmt.Sprintf("server did not answer %d liveness probes in a row", failures)
	}
	if errors.Is(err, mcpvisor.ErrAuthRequired) { // and no new token helps
		c.Kind, c.Permanent = supervisor.CauseAuth, true
	}
	var f interface{ Problem() (what, hint string) }
	if errors.As(err, &f) {
		what, hint := f.Problem()
		c.Message += ": " + what
		if hint != "" {
			c.Message += "; " + hint
		}
	}
	return c
}
