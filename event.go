package mcpvisor

import (
	"fmt"
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
	// FailedCalls counts the calls in flight that ended with the session.
	FailedCalls int `json:"failedCalls,omitempty"`
	// Missed counts the events that this watcher lost.
	Missed uint64 `json:"missed,omitempty"`

	// Change says how the lists of the server changed.
	Change *Change `json:"change,omitempty"`
	// URI names an updated resource.
	URI string `json:"uri,omitempty"`
	// Log is a log message of the server.
	Log *LogMessage `json:"log,omitempty"`
}

// String describes the event in one line, without its time.
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
		if e.Attempt > 0 {
			return fmt.Sprintf("%s evicted %s: %s", e.Server, display.AfterRestarts(e.Attempt, e.MaxAttempts), e.Cause.Describe())
		}
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
