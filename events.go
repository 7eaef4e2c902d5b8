package mcpvisor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Event is one fact about one server, as Watch of the facade delivers it. [EventKind]
// says which fields each kind sets; the others are zero. In JSON, durations are
// nanoseconds.
type Event struct {
	// Seq numbers the events of a client, from 1. A watcher sees gaps for the events that
	// it missed and for kinds that it did not ask for. 0 for EventMissed.
	Seq uint64 `json:"seq"`
	// Time is when the event happened.
	Time time.Time `json:"time"`
	// Kind says what happened.
	Kind EventKind `json:"kind"`
	// Server is the name of the server; empty for EventMissed.
	Server string `json:"server,omitempty"`
	// Gen numbers the registration, Epoch the incarnation.
	Gen   uint64 `json:"gen,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`

	// Cause is why a session ended; may be nil. Test it for nil before it is used as an
	// error: a nil *Cause in an error interface is not nil.
	Cause *supervisor.Cause `json:"cause,omitempty"`

	// Attempt is the number of the next attempt, or in EventEvicted of the last one.
	// MaxAttempts is how many the policy allows in a row (supervisor.Unlimited is -1).
	Attempt     int `json:"attempt,omitempty"`
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// Delay is the time until the next attempt, RetryAt when that begins.
	Delay   time.Duration `json:"delayNs,omitempty"`
	RetryAt *time.Time    `json:"retryAt,omitempty"`

	// Tools, Resources, Templates and Prompts count what the server offers.
	Tools     int `json:"tools,omitempty"`
	Resources int `json:"resources,omitempty"`
	Templates int `json:"templates,omitempty"`
	Prompts   int `json:"prompts,omitempty"`
	// PID is the process id of a stdio server.
	PID int `json:"pid,omitempty"`
	// Protocol is the negotiated version, as in "2025-11-25".
	Protocol string `json:"protocol,omitempty"`
	// Downtime is how long the server was not ready.
	Downtime time.Duration `json:"downtimeNs,omitempty"`
	// StartTook is how long the start took: process or connection, negotiation, all lists.
	StartTook time.Duration `json:"startTookNs,omitempty"`
	// WaitsFor names what the server comes after that is not ready.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// FailedCalls counts the calls in flight that ended with the session.
	FailedCalls int `json:"failedCalls,omitempty"`
	// Missed counts the events that this watcher lost.
	Missed uint64 `json:"missed,omitempty"`

	// Change says how the lists of the server changed: since they were read before, or, in
	// EventReady, since the server was ready before.
	Change *Change `json:"change,omitempty"`
	// URI names an updated resource.
	URI string `json:"uri,omitempty"`
	// Tool is the server's own name of the tool, in events about tasks.
	Tool string `json:"tool,omitempty"`
	// Log is a log message of the server.
	Log *LogMessage `json:"log,omitempty"`
}

// EventKind says what an [Event] reports.
type EventKind string

const (
	// EventRegistered: a server was registered. Its first start begins.
	EventRegistered EventKind = "registered"
	// EventConnecting: an incarnation is being started. Epoch is its number.
	EventConnecting EventKind = "connecting"
	// EventReady: all lists were read, the server takes calls. Tools, Resources, Templates,
	// Prompts, PID, Protocol and StartTook are set; Downtime is how long the server was not
	// ready, 0 the first time. Change is set if the offer differs from what the server, or the
	// one of the same name that it replaces, offered when it was last ready: a tool with a new
	// description after a crash, for instance. After a standby took over, Change compares its
	// catalog with that of the session it replaced.
	EventReady EventKind = "ready"
	// EventDown: the session of a ready server ended; its tools are no longer listed, unless
	// a standby takes over in the same moment.
	// Cause is set; FailedCalls is how many calls in flight failed with it.
	EventDown EventKind = "down"
	// EventStartFailed: an incarnation ended before it was ready. Cause is set.
	EventStartFailed EventKind = "start_failed"
	// EventRetry: the next attempt is scheduled. Attempt, MaxAttempts, Delay and RetryAt
	// are set.
	EventRetry EventKind = "retry"
	// EventStable: the session has been ready for the policy's StableAfter; the policy
	// counts attempts from 0 again.
	EventStable EventKind = "stable"
	// EventStandby: a standby is ready to take over. Epoch is the standby's; PID,
	// Protocol and StartTook are set.
	EventStandby EventKind = "standby"
	// EventStandbyLost: a standby ended before it was needed. Epoch is the standby's,
	// Cause is set. The server in service is not affected.
	EventStandbyLost EventKind = "standby_lost"
	// EventChanged: the lists of a ready server were read again and have changed.
	// Change says how; Tools, Resources, Templates and Prompts are the new counts.
	EventChanged EventKind = "changed"
	// EventResourceUpdated: the content of a subscribed resource has changed, or may have: after
	// a gap in the stream of updates each subscribed resource is reported. URI is set; it may be
	// that of a part of the resource. A restart is not reported this way: read subscribed
	// resources again after EventReady.
	EventResourceUpdated EventKind = "resource_updated"
	// EventTaskRecovered: a server continues the task of a call that began in an earlier
	// incarnation of the server or under an earlier host. Tool is set.
	EventTaskRecovered EventKind = "task_recovered"
	// EventTaskLost: the task of a call did not survive the end of its server, or the server did
	// not come back. The outcome of the call is unknown. Tool is set.
	EventTaskLost EventKind = "task_lost"
	// EventLog: the server sent a log message. Log is set. If there are more than 200 a second,
	// some are dropped, and Discarded.Dropped counts them.
	EventLog EventKind = "log"
	// EventParked: the attempts of the policy are spent, or the host is at a limit; the server is tried again
	// slowly. Cause, Delay and RetryAt are set.
	EventParked EventKind = "parked"
	// EventAuthRequired: the server waits for an OAuth authorization. Cause is set;
	// errors.As finds an [AuthRequired] in it if the user can authorize the client.
	EventAuthRequired EventKind = "auth_required"
	// EventEvicted: the server was given up. Cause, Attempt and MaxAttempts are set.
	EventEvicted EventKind = "evicted"
	// EventWaiting: the server would start, and waits for what it comes after. WaitsFor is set.
	EventWaiting EventKind = "waiting"
	// EventAsleep: the server does not run, as nothing wants it, or as it has done its work. Cause says which.
	EventAsleep EventKind = "asleep"
	// EventStopped: an operator has stopped the server.
	EventStopped EventKind = "stopped"
	// EventGroupFailed: a group has failed and is parked or evicted as one, as Cause says. Server is the name of the
	// group.
	EventGroupFailed EventKind = "group_failed"
	// EventUnregistered: the registration was removed and everything that belonged to it
	// has ended.
	EventUnregistered EventKind = "unregistered"
	// EventMissed: this watcher did not keep up; Missed events were dropped. Every
	// watcher gets it, whatever kinds it asked for.
	EventMissed EventKind = "missed"
)

// Severity says how much an [Event] matters to an operator. The client's logger writes the
// event at the level of that name.
type Severity string

// The severities, the least first.
const (
	// SeverityDebug: a detail of a normal course.
	SeverityDebug Severity = "debug"
	// SeverityInfo: a change that needs no attention.
	SeverityInfo Severity = "info"
	// SeverityWarning: something went wrong, and the runtime deals with it.
	SeverityWarning Severity = "warning"
	// SeverityError: a server stays out of service until an operator does something, or for a
	// long time.
	SeverityError Severity = "error"
)

// eventRow is all that depends on the kind of an event alone.
type eventRow struct {
	kind     EventKind
	severity Severity // Event.Severity knows the exceptions
	// fromServer: a server sent it, so a flood of them must displace no other event.
	fromServer bool
	// text describes the event, after the name of its server. nil: the name of the kind.
	text func(e *Event) string
}

// eventRows has a row for each kind, in the order of a server's life.
var eventRows = []eventRow{
	{kind: EventRegistered, severity: SeverityInfo},
	{kind: EventConnecting, severity: SeverityDebug},
	{kind: EventReady, severity: SeverityInfo, text: describeReady},
	{kind: EventStable, severity: SeverityDebug},
	{kind: EventStandby, severity: SeverityInfo, text: func(e *Event) string {
		return fmt.Sprintf("has a standby: epoch %d, pid %d", e.Epoch, e.PID)
	}},
	{kind: EventStandbyLost, severity: SeverityWarning, text: func(e *Event) string {
		return "lost its standby: " + e.Cause.Describe()
	}},
	{kind: EventChanged, severity: SeverityInfo, text: func(e *Event) string {
		return fmt.Sprintf("changed: %v", e.Change)
	}},
	{kind: EventResourceUpdated, severity: SeverityDebug, fromServer: true, text: func(e *Event) string {
		return fmt.Sprintf("updated %q", e.URI)
	}},
	{kind: EventLog, severity: SeverityInfo, fromServer: true, text: func(e *Event) string {
		if e.Log == nil {
			return "logs nothing"
		}
		return fmt.Sprintf("logs %s: %s", e.Log.Level, e.Log.Text)
	}},
	{kind: EventTaskRecovered, severity: SeverityInfo, text: func(e *Event) string { return "has the task of " + e.Tool + " again" }},
	{kind: EventTaskLost, severity: SeverityWarning, text: func(e *Event) string {
		return "lost the task of " + e.Tool + ": its outcome is unknown"
	}},
	{kind: EventDown, severity: SeverityWarning, text: func(e *Event) string {
		s := "down: " + e.Cause.Describe()
		if e.FailedCalls > 0 {
			s += "; " + display.Count(e.FailedCalls, "call") + " in flight failed"
		}
		return s
	}},
	{kind: EventStartFailed, severity: SeverityWarning, text: func(e *Event) string {
		return "did not start: " + e.Cause.Describe()
	}},
	{kind: EventRetry, severity: SeverityWarning, text: func(e *Event) string {
		if e.MaxAttempts == supervisor.Unlimited {
			return fmt.Sprintf("retry %d in %v", e.Attempt, e.Delay)
		}
		return fmt.Sprintf("retry %d/%d in %v", e.Attempt, e.MaxAttempts, e.Delay)
	}},
	{kind: EventParked, severity: SeverityError, text: func(e *Event) string {
		return fmt.Sprintf("parked, next try in %v: %s", e.Delay, e.Cause.Describe())
	}},
	{kind: EventAuthRequired, severity: SeverityError, text: func(e *Event) string {
		return "waits to be authorized: " + e.Cause.Describe()
	}},
	{kind: EventEvicted, severity: SeverityError, text: func(e *Event) string {
		if e.Attempt > 0 && !e.Cause.Asked() { // else its group gave it up
			return "evicted " + display.AfterRestarts(e.Attempt, e.MaxAttempts) + ": " + e.Cause.Describe()
		}
		return "evicted: " + e.Cause.Describe()
	}},
	{kind: EventWaiting, severity: SeverityInfo, text: func(e *Event) string {
		return "waits for " + strings.Join(e.WaitsFor, ", ")
	}},
	{kind: EventAsleep, severity: SeverityInfo, text: func(e *Event) string { return "is at rest: " + e.Cause.Error() }},
	{kind: EventStopped, severity: SeverityInfo, text: func(e *Event) string { return "is stopped: " + e.Cause.Error() }},
	{kind: EventGroupFailed, severity: SeverityError, text: func(e *Event) string { return "has failed: " + e.Cause.Error() }},
	{kind: EventUnregistered, severity: SeverityInfo},
	{kind: EventMissed, severity: SeverityWarning, text: func(e *Event) string {
		return "dropped because this watcher is slow: " + display.Count(e.Missed, "event")
	}},
}

// describeReady describes an EventReady.
func describeReady(e *Event) string {
	s := fmt.Sprintf("ready: %s, %s, %s, protocol %s, epoch %d", display.Count(e.Tools, "tool"),
		display.Count(e.Resources+e.Templates, "resource"), display.Count(e.Prompts, "prompt"), e.Protocol, e.Epoch)
	if e.PID != 0 {
		s += fmt.Sprintf(", pid %d", e.PID)
	}
	if e.Downtime > 0 {
		s += fmt.Sprintf(", down for %v", e.Downtime.Round(time.Millisecond))
	}
	if !e.Change.IsZero() {
		s += fmt.Sprintf(", changed meanwhile: %v", e.Change)
	}
	return s
}

// row returns the row of a kind. A kind of another release has none of its own.
func (k EventKind) row() eventRow {
	i := slices.IndexFunc(eventRows, func(r eventRow) bool { return r.kind == k })
	if i < 0 {
		return eventRow{kind: k, severity: SeverityInfo}
	}
	return eventRows[i]
}

// EventKinds returns all kinds, in the order of a server's life.
func EventKinds() []EventKind {
	all := make([]EventKind, len(eventRows))
	for i, row := range eventRows {
		all[i] = row.kind
	}
	return all
}

// FromServer reports whether the server itself sends events of this kind: log messages
// and updates of resources. All other kinds are about the supervision of a server. A
// watcher that shows states needs only those:
//
//	kinds := slices.DeleteFunc(mcpvisor.EventKinds(), mcpvisor.EventKind.FromServer)
func (k EventKind) FromServer() bool { return k.row().fromServer }

// Severity returns how much the event matters. A session that was ended on request is no
// warning; a server that came back with other lists is one. A log message has the severity
// that its server gave it.
func (e Event) Severity() Severity {
	switch {
	case e.Kind == EventReady && !e.Change.IsZero():
		return SeverityWarning
	case e.Kind == EventDown && e.Cause.Asked():
		return SeverityInfo
	case e.Kind == EventLog && e.Log != nil:
		return severityOfLevel(e.Log.Level)
	}
	return e.Kind.row().severity
}

// severityOfLevel translates a level of the protocol (RFC 5424).
func severityOfLevel(level string) Severity {
	switch level {
	case "debug":
		return SeverityDebug
	case "warning":
		return SeverityWarning
	case "error", "critical", "alert", "emergency":
		return SeverityError
	}
	return SeverityInfo // info, notice, and unknown levels
}

// String describes the event in one line, without its time.
func (e Event) String() string {
	text := string(e.Kind)
	if describe := e.Kind.row().text; describe != nil {
		text = describe(&e)
	}
	if e.Kind == EventMissed { // it is about the watcher, not about a server
		return text
	}
	return e.Server + " " + text
}

// Change says how the lists and the instructions of a server changed since they were last read,
// or over a restart. The entries of a [Delta] are qualified names of tools and prompts, URIs of
// resources, and URI templates.
type Change struct {
	// Each field says how one list changed; the zero Delta means not at all.
	Tools     Delta `json:"tools,omitzero"`
	Resources Delta `json:"resources,omitzero"`
	Templates Delta `json:"templates,omitzero"`
	Prompts   Delta `json:"prompts,omitzero"`
	// Instructions: the instructions of the server changed over a restart. A server sends them
	// only at its start.
	Instructions bool `json:"instructions,omitempty"`
}

// String counts what changed, as in "tools +1 −0 ~2, instructions".
func (c *Change) String() string {
	if c == nil {
		return "nothing"
	}
	var parts []string
	for _, list := range []struct {
		noun string
		d    Delta
	}{{"tools", c.Tools}, {"resources", c.Resources}, {"templates", c.Templates}, {"prompts", c.Prompts}} {
		if !list.d.IsZero() {
			parts = append(parts, fmt.Sprintf("%s +%d −%d ~%d", list.noun,
				len(list.d.Added)+list.d.AddedMore, len(list.d.Removed)+list.d.RemovedMore, len(list.d.Changed)+list.d.ChangedMore))
		}
	}
	if c.Instructions {
		parts = append(parts, "instructions")
	}
	return strings.Join(parts, ", ")
}

// IsZero reports whether nothing changed.
func (c *Change) IsZero() bool {
	return c == nil || c.Tools.IsZero() && c.Resources.IsZero() && c.Templates.IsZero() && c.Prompts.IsZero() && !c.Instructions
}

// Delta says how one list changed. The entries are sorted. At most 50 of
// each kind are named, fewer if they are long; the rest is counted. The client's
// listings have them all.
type Delta struct {
	// Added are entries that were not listed before; Removed are entries that are no longer
	// listed.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Changed are entries with the same name and a new definition.
	Changed []string `json:"changed,omitempty"`
	// AddedMore, RemovedMore and ChangedMore count the entries that are not named.
	AddedMore   int `json:"addedMore,omitempty"`
	RemovedMore int `json:"removedMore,omitempty"`
	ChangedMore int `json:"changedMore,omitempty"`
}

// IsZero reports whether nothing changed.
func (d Delta) IsZero() bool {
	return len(d.Added)+len(d.Removed)+len(d.Changed)+d.AddedMore+d.RemovedMore+d.ChangedMore == 0
}

// LogMessage is one log message of a server (MCP, utilities, logging:
// notifications/message).
type LogMessage struct {
	// Level is the severity of RFC 5424: debug, info, notice, warning, error, critical,
	// alert or emergency.
	Level string `json:"level"`
	// Logger names the part of the server that logs; may be empty.
	Logger string `json:"logger,omitempty"`
	// Text is the message: text without control characters, or JSON. At most 8 KiB; the
	// rest is cut.
	Text string `json:"text"`
}

// Progress is a server's report about a call in flight (MCP, basic, utilities,
// progress: notifications/progress).
type Progress struct {
	// Progress is how far the call has come. The specification requires it to grow.
	Progress float64 `json:"progress"`
	// Total is the value of Progress at the end of the call; 0 if the server does not
	// say.
	Total float64 `json:"total,omitempty"`
	// Message is text for the user; always empty from servers before 2025-03-26.
	Message string `json:"message,omitempty"`
}
