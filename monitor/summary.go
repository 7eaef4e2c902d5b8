package monitor

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// EventSummary is one line of what has happened: one event, or several similar ones of one server.
// A server that crashes again and again has one EventSummary for all its crashes of one kind, as
// long as less than an hour lies between them. So the changes of days have room where the events of
// one crash loop fill [mcpvisor.Event] lists within hours.
//
// There are summaries of these events: a server was registered or unregistered; it ended, or did
// not start; its lists changed; it was parked or given up, or waits to be authorized; an operator stopped
// it; its group has failed; its standby or a task was lost, or a task was found again. All else is a step on
// the way, such as the next attempt, or the course of a lazy server.
type EventSummary struct {
	// Seq is that of the first event. It identifies the summary. With Replaces it is that of the
	// EventUnregistered before.
	Seq uint64 `json:"seq"`
	// Updated is the Seq of the event that changed the summary last: Last, or that of Ready.
	Updated uint64 `json:"updated"`
	// Began is when the first event happened.
	Began time.Time `json:"began"`
	// Count is how many events the summary stands for.
	Count int `json:"count"`
	// NeverReady counts those of them that are an EventStartFailed; the others of the same summary
	// are an EventDown.
	NeverReady int `json:"neverReady,omitempty"`
	// Replaces: the server was registered in place of one of the same name, with another
	// specification. Only for EventRegistered.
	Replaces bool `json:"replaces,omitempty"`
	// Ready is when the server was ready after Last; for EventStandbyLost, when it had a standby.
	// nil: it was not, or another summary of the server is later.
	Ready *time.Time `json:"ready,omitempty"`
	// Last is the last of the events. Its cause has only the last lines of stderr.
	Last mcpvisor.Event `json:"last"`
}

// String describes the summary in one line, without the times. For one event it is what
// [mcpvisor.Event.String] returns, without stderr.
func (s EventSummary) String() string {
	e := s.Last
	if e.Cause != nil {
		e.Cause = &supervisor.Cause{Message: e.Cause.Error()}
	}
	switch {
	case s.Replaces:
		return e.Server + " registered again, with another specification"
	case s.Count == 1:
		return e.String()
	case e.Kind != mcpvisor.EventDown && e.Kind != mcpvisor.EventStartFailed:
		return fmt.Sprintf("%s (%d times)", e.String(), s.Count)
	}
	text := fmt.Sprintf("%s ended %d times", e.Server, s.Count)
	if s.NeverReady == s.Count {
		text = fmt.Sprintf("%s did not start %d times", e.Server, s.Count)
	} else if s.NeverReady > 0 {
		text += ", " + display.Count(s.NeverReady, "time") + " before it was ready"
	}
	return text + "; last: " + e.Cause.Error()
}
