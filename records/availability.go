package records

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Availability is what records say of one server in a span of time. What is in neither Ready nor Down was not recorded, or the server
// was at rest, stopped by an operator, waiting for others, or not registered.
type Availability struct {
	Server string `json:"server"`
	// Ready is for how long the server was ready, and Down for how long it should have been and was not, starts included.
	Ready time.Duration `json:"readyNs"`
	Down  time.Duration `json:"downNs"`
	// Ends counts the ends and failed starts that were not asked for, and Restarts the starts that were complete, but for the first of each run.
	Ends     int `json:"ends"`
	Restarts int `json:"restarts"`
	// LastEnd is when such an end happened last, and LastCause its text; zero and empty without one.
	LastEnd   time.Time `json:"lastEnd,omitzero"`
	LastCause string    `json:"lastCause,omitempty"`
}

// Share is the part of the time in which the server was ready, of that in which it should have been; ok is false if there was none.
func (a *Availability) Share() (share float64, ok bool) {
	all := a.Ready + a.Down
	return a.Ready.Seconds() / max(all.Seconds(), 1e-9), all > 0
}

// ReadAvailability returns what the records of a directory say of each server between two times, by name; a zero until is the time of
// the last record, which is right unless a writer is open. What was not recorded counts for nothing, such as a gap, and the time
// between a crash of the writer and its next start. began is the time of the first record, if that is later than since: older ones
// were deleted, and a server to which nothing has happened since then is left out. It reads all records before until.
func ReadAvailability(dir string, since, until time.Time) (_ []Availability, began time.Time, _ error) {
	type server struct {
		Availability
		state *time.Duration // Ready or Down of the server; nil: neither
		from  time.Time      // of the state
		began bool           // it was ready in this run
	}
	all := map[string]*server{}
	set := func(s *server, state *time.Duration, at time.Time) {
		if from, to := later(s.from, since), at; s.state != nil && to.After(from) {
			*s.state += to.Sub(from)
		}
		s.state, s.from = state, at
	}
	var first, last time.Time
	ended, whole := false, false
	end := func() { // of a run, at its last record
		for _, s := range all {
			set(s, nil, last)
			s.began = false
		}
	}
	err := Read(dir, Query{Kinds: []Kind{KindEvent, KindStart, KindEnd, KindCall, KindGap}}, func(r Record) error {
		if !until.IsZero() && r.Time.After(until) {
			return nil
		}
		if first.IsZero() {
			first, whole = r.Time, r.Seq <= 2 // behind the first line of the first file
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
		switch r.Event {
		case mcpvisor.EventReady:
			if s.began && !r.Time.Before(since) {
				s.Restarts++
			}
			s.began = true
			set(s, &s.Ready, r.Time)
		case mcpvisor.EventDown, mcpvisor.EventStartFailed:
			var e mcpvisor.Event
			if json.Unmarshal(r.Details, &e) == nil && !e.Cause.Asked() && !r.Time.Before(since) {
				s.Ends++
				s.LastEnd, s.LastCause = r.Time, strings.TrimPrefix(r.Text, r.Server+" ")
			}
			if r.Event == mcpvisor.EventDown && s.from.IsZero() && !whole { // the record of its start was deleted
				s.state, s.from = &s.Ready, first
			}
			set(s, &s.Down, r.Time)
		case mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventRetry, mcpvisor.EventParked, mcpvisor.EventEvicted, mcpvisor.EventAuthRequired:
			if s.state != &s.Ready { // of a standby, or of a registration that was taken over
				set(s, &s.Down, r.Time)
			}
		case mcpvisor.EventAsleep, mcpvisor.EventStopped, mcpvisor.EventWaiting, mcpvisor.EventUnregistered:
			set(s, nil, r.Time)
		default:
		}
		return nil
	})
	if err != nil {
		return nil, began, err
	}
	if !whole && first.After(since) {
		began = first
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
