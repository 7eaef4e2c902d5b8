package mcpvisor

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// EventKind says what an [Event] reports.
type EventKind string

const (
	// EventRegistered: a server was added; its first dial begins.
	EventRegistered EventKind = "registered"
	// EventConnecting: an incarnation is being dialled. Epoch is new.
	EventConnecting EventKind = "connecting"
	// EventReady: the catalog is complete and published. Tools, PID and Protocol
	// are set; Down is how long the server was out of service, 0 at first.
	EventReady EventKind = "ready"
	// EventDown: a ready session ended and its catalog is withdrawn. Cause is
	// set; Failed is how many calls in flight failed with it.
	EventDown EventKind = "down"
	// EventStartFailed: a session ended before it was ready. Cause is set.
	EventStartFailed EventKind = "start_failed"
	// EventRetry: the next try is planned. Attempt, MaxAttempts, Delay and
	// RetryAt are set.
	EventRetry EventKind = "retry"
	// EventStable: a session has proven itself, the budget is given back.
	EventStable EventKind = "stable"
	// EventStandby: a standby is ready to take over. Epoch is its own; PID and
	// Protocol are set.
	EventStandby EventKind = "standby"
	// EventStandbyLost: a standby ended before it was needed. Epoch is its own,
	// Cause is set. The server in service is not concerned.
	EventStandbyLost EventKind = "standby_lost"
	// EventChanged: the server announced changes, and the lists were read anew.
	// Change says what is different; Tools, Resources, Templates and Prompts are
	// the new counts.
	EventChanged EventKind = "changed"
	// EventResourceUpdated: a resource that the host subscribed to has a new
	// content, or may have: a stream of updates was lost, or took the place of
	// others, and is open now. URI is set; it may be of a part of the resource. For
	// what changed between two incarnations there is none: see EventReady.
	EventResourceUpdated EventKind = "resource_updated"
	// EventLog: the server logged something. Log is set. Servers that log faster
	// than 200 lines a second lose some; see Noise.Dropped.
	EventLog EventKind = "log"
	// EventParked: the budget is spent; the server is tried again slowly. Cause,
	// Delay and RetryAt are set.
	EventParked EventKind = "parked"
	// EventAuthRequired: the server waits for somebody to authorize it. Cause is
	// set; errors.As finds the [AuthRequired] in it, if there is one.
	EventAuthRequired EventKind = "auth_required"
	// EventEvicted: given up. Cause is set.
	EventEvicted EventKind = "evicted"
	// EventUnregistered: the registration is gone and everything it held is reaped.
	EventUnregistered EventKind = "unregistered"
	// EventMissed: this watcher was too slow; Missed events were dropped here.
	EventMissed EventKind = "missed"
)

// Event is one fact about the supervision of one server. Fields that a kind
// does not speak of are zero.
type Event struct {
	// Seq increases by one with every event of a client.
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Kind   EventKind `json:"kind"`
	Server string    `json:"server,omitempty"`
	Gen    uint64    `json:"gen,omitempty"`
	Epoch  uint64    `json:"epoch,omitempty"`

	// Cause is nil where there is none: look before you hand it on as an error.
	Cause *supervisor.Cause `json:"cause,omitempty"`

	Attempt     int           `json:"attempt,omitempty"`
	MaxAttempts int           `json:"maxAttempts,omitempty"`
	Delay       time.Duration `json:"delayNs,omitempty"`
	RetryAt     *time.Time    `json:"retryAt,omitempty"`

	Tools       int           `json:"tools,omitempty"`
	Resources   int           `json:"resources,omitempty"`
	Templates   int           `json:"templates,omitempty"`
	Prompts     int           `json:"prompts,omitempty"`
	PID         int           `json:"pid,omitempty"`
	Protocol    string        `json:"protocol,omitempty"`
	Downtime    time.Duration `json:"downtimeNs,omitempty"`
	FailedCalls int           `json:"failedCalls,omitempty"`
	Missed      uint64        `json:"missed,omitempty"`

	Change *Change     `json:"change,omitempty"`
	URI    string      `json:"uri,omitempty"`
	Log    *LogMessage `json:"log,omitempty"`
}

// String is the event in one line, without its time.
func (e Event) String() string {
	switch e.Kind {
	case EventReady:
		s := fmt.Sprintf("%s ready: %s, %s, %s, protocol %s, epoch %d", e.Server, display.Count(e.Tools, "tool"),
			display.Count(e.Resources+e.Templates, "resource"), display.Count(e.Prompts, "prompt"), e.Protocol, e.Epoch)
		if e.PID != 0 {
			s += fmt.Sprintf(", pid %d", e.PID)
		}
		if e.Downtime > 0 {
			s += fmt.Sprintf(", down for %v", e.Downtime.Round(time.Millisecond))
		}
		return s
	case EventDown:
		s := fmt.Sprintf("%s down: %s", e.Server, e.Cause.Describe())
		if e.FailedCalls == 0 {
			return s
		}
		return s + "; " + display.Count(e.FailedCalls, "call") + " in flight failed"
	case EventStandby:
		return fmt.Sprintf("%s has a standby: epoch %d, pid %d", e.Server, e.Epoch, e.PID)
	case EventStandbyLost:
		return fmt.Sprintf("%s lost its standby: %s", e.Server, e.Cause.Describe())
	case EventStartFailed:
		return fmt.Sprintf("%s did not start: %s", e.Server, e.Cause.Describe())
	case EventRetry:
		if e.MaxAttempts == supervisor.Unlimited {
			return fmt.Sprintf("%s retry %d in %v", e.Server, e.Attempt, e.Delay)
		}
		return fmt.Sprintf("%s retry %d/%d in %v", e.Server, e.Attempt, e.MaxAttempts, e.Delay)
	case EventParked:
		return fmt.Sprintf("%s parked, next try in %v: %s", e.Server, e.Delay, e.Cause.Describe())
	case EventAuthRequired:
		return fmt.Sprintf("%s waits to be authorized: %s", e.Server, e.Cause.Describe())
	case EventEvicted:
		return fmt.Sprintf("%s evicted: %s", e.Server, e.Cause.Describe())
	case EventChanged:
		return fmt.Sprintf("%s changed: %v", e.Server, e.Change)
	case EventResourceUpdated:
		return fmt.Sprintf("%s updated %q", e.Server, e.URI)
	case EventLog:
		return fmt.Sprintf("%s logs %s: %s", e.Server, e.Log.Level, e.Log.Text)
	case EventMissed:
		return "dropped because this watcher is slow: " + display.Count(e.Missed, "event")
	}
	return e.Server + " " + string(e.Kind)
}
