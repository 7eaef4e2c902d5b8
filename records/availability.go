package records

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Availability is what records say of one server in a span of time. The time that is in neither Ready nor Down was not
// recorded, or the server was at rest, stopped by an operator, waiting for others, or not registered.
type Availability struct {
	Server string `json:"server"`
	// Ready is how long the server was ready. Down is how long it was not ready although it should have been, starts included.
	Ready time.Duration `json:"readyNs"`
	Down  time.Duration `json:"downNs"`
	// Ends counts the ends and failed starts that were not asked for. Restarts counts the starts that succeeded, without the
	// first one of each run.
	Ends     int `json:"ends"`
	Restarts int `json:"restarts"`
	// LastEnd is when such an end happened last, and LastCause its text; zero and empty without one.
	LastEnd   time.Time `json:"lastEnd,omitzero"`
	LastCause string    `json:"lastCause,omitempty"`
}

// Share returns in which part of the time in which the server should have been ready it was; ok is false if there was no such
// time.
func (a *Availability) Share() (share float64, ok bool) {
	all := a.Ready + a.Down
	return a.Ready.Seconds() / max(all.Seconds(), 1e-9), all > 0
}

// condition is what events say of a server: ready, down although it should be ready, the same before it was ready for the
// first time, or at rest.
type condition string

const (
	conditionRest     condition = ""
	conditionReady    condition = "ready"
	conditionDown     condition = "down"
	conditionStarting condition = "starting"
)

// after is the condition after an event.
func (c condition) after(kind mcpvisor.EventKind) condition {
	switch kind {
	case mcpvisor.EventReady:
		return conditionReady
	case mcpvisor.EventDown:
		if c != conditionStarting {
			return conditionDown
		}
	case mcpvisor.EventStartFailed:
		if c == conditionReady {
			return conditionDown
		}
		return cmp.Or(c, conditionStarting)
	case mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventRetry, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired:
		return cmp.Or(c, conditionStarting) // a ready one has a standby, or its registration was taken over
	case mcpvisor.EventAsleep, mcpvisor.EventStopped, mcpvisor.EventWaiting, mcpvisor.EventUnregistered:
		return conditionRest
	default:
	}
	return c
}

// conditions are those of all servers that are not at rest. The first line of each file has them, because the events that
// led to them may be deleted.
type conditions map[string]condition

// add takes a record that follows.
func (c conditions) add(r *Record) {
	switch r.Kind {
	case KindGap: // what was before is not known
		clear(c)
	case KindEvent:
		if now := c[r.Server].after(r.Event); now == conditionRest {
			delete(c, r.Server)
		} else {
			c[r.Server] = now
		}
	default:
	}
}

// details are the conditions for a [KindSegment], or nil if they are longer than a record may be, or than most bytes.
func (c conditions) details(most int64) json.RawMessage {
	if text, err := json.Marshal(c); err == nil && int64(len(text)) <= min(most, maxLineBytes/2) {
		return text
	}
	return nil
}

// ReadAvailability returns what the records of a directory say of each server between two times, by name; a zero until is the time of
// the last record, which is right unless a writer is open. What was not recorded counts for nothing, such as a gap, and the time
// between a crash of the writer and its next start. began is the time of the first record, if that is later than since: older ones
// were deleted. It reads all records before until.
func ReadAvailability(dir string, since, until time.Time) (_ []Availability, began time.Time, _ error) {
	type server struct {
		Availability
		condition
		from  time.Time // of the condition
		began bool      // it was ready in this run
	}
	all := map[string]*server{}
	set := func(s *server, next condition, at time.Time) {
		if from := later(s.from, since); at.After(from) {
			switch s.condition {
			case conditionReady:
				s.Ready += at.Sub(from)
			case conditionDown, conditionStarting:
				s.Down += at.Sub(from)
			default:
			}
		}
		s.condition, s.from = next, at
	}
	var first, last time.Time
	ended := false
	end := func() { // of a run, at its last record
		for _, s := range all {
			set(s, conditionRest, last)
			s.began = false
		}
	}
	err := Read(dir, Query{Kinds: []Kind{KindEvent, KindStart, KindEnd, KindCall, KindGap, KindSegment}}, func(r Record) error {
		if !until.IsZero() && r.Time.After(until) {
			return nil
		}
		if first.IsZero() {
			if first = r.Time; r.Seq > 1 {
				began = first
			}
			before := conditions{}
			_ = json.Unmarshal(r.Details, &before) // none if it has none
			for name, c := range before {
				all[name] = &server{Availability{Server: name}, c, first, c != conditionStarting}
			}
		}
		if r.Kind == KindStart || r.Kind == KindGap {
			end()
		}
		ended = r.Kind == KindEnd
		if last = later(last, r.Time); r.Kind != KindEvent {
			return nil
		}
		s := all[r.Server]
		if s == nil {
			s = &server{Availability: Availability{Server: r.Server}}
			all[r.Server] = s
		}
		switch within := !r.Time.Before(since); r.Event {
		case mcpvisor.EventReady:
			if s.began && within {
				s.Restarts++
			}
			s.began = true
		case mcpvisor.EventDown, mcpvisor.EventStartFailed:
			var e mcpvisor.Event
			if json.Unmarshal(r.Details, &e) == nil && !e.Cause.Asked() && within {
				s.Ends++
				s.LastEnd, s.LastCause = r.Time, strings.TrimPrefix(r.Text, r.Server+" ")
			}
		default:
		}
		set(s, s.after(r.Event), r.Time)
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if !began.After(since) {
		began = time.Time{}
	}
	if !ended {
		last = later(last, until)
	}
	end()
	found := []Availability{}
	for _, s := range all {
		if s.Ready+s.Down > 0 {
			found = append(found, s.Availability)
		}
	}
	slices.SortFunc(found, func(a, b Availability) int { return strings.Compare(a.Server, b.Server) })
	return found, began, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
