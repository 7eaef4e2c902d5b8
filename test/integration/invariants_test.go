//go:build linux

package integration

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// evidence is everything that was recorded about one client in one round.
type evidence struct {
	events  []mcpvisor.Event
	records []*record
	open    int
	// executions is how often each key ran, as the servers recorded it.
	executions map[string]int
	// processes says which servers have a process of their own, whose number
	// tells incarnations apart.
	processes map[string]bool
	// routines says which servers live and die with their incarnation but have
	// no process: in memory. Over HTTP a server may outlive a session.
	routines map[string]bool
	// web is the servers behind HTTP: what stands in between can spoil an answer.
	web map[string]bool
	// unharmed holds the servers without injected faults.
	unharmed map[string]bool
}

// lateness is how much later than its bound a call may return. It is generous:
// the test is about calls that hang.
const lateness = 10 * time.Second

// allowed is the kinds of error that faults may lead to. The others would say
// that an answer was garbled, or that the client lost its way.
var allowed = []mcpvisor.ErrorKind{mcpvisor.KindUnknownServer, mcpvisor.KindUnavailable, mcpvisor.KindCrashed,
	mcpvisor.KindTimeout, mcpvisor.KindCanceled, mcpvisor.KindClosed}

// violations checks every invariant; each storm must end without violations.
func violations(ev evidence) []string {
	all, wrong := incarnations(ev.events)
	if ev.open > 0 {
		wrong = append(wrong, fmt.Sprintf("%d calls never returned", ev.open))
	}
	bad := func(r *record, format string, args ...any) {
		wrong = append(wrong, r.String()+": "+fmt.Sprintf(format, args...))
	}
	instances := map[string][]*record{}
	for _, r := range ev.records {
		if took := r.ended.Sub(r.began); took > r.bound+lateness {
			bad(r, "took %v and was bounded by %v", took, r.bound)
		}
		if ev.unharmed[r.server] && r.err != nil {
			bad(r, "an unharmed server failed")
		}
		if r.err == nil {
			wrongText(r, bad)
		} else {
			wrongError(ev, r, all, bad)
		}
		if r.tool == "count" {
			wrongCount(r, ev.executions[r.key], bad)
		} else if n := ev.executions[r.key]; n != 0 {
			bad(r, "ran as another call, %d times", n)
		}
		if r.tool == "pid" && r.err == nil {
			instances[r.server+" "+r.who.Instance] = append(instances[r.server+" "+r.who.Instance], r)
		}
	}
	for _, answered := range instances {
		wrongInstance(ev, answered, all, bad)
	}
	return wrong
}

type complain = func(r *record, format string, args ...any)

// wrongText finds the answer to another call.
func wrongText(r *record, bad complain) {
	want := map[string]string{"echo": r.key, "read": r.key, "prompt": "Greet " + r.key + ".",
		"consult": r.key, "slow_progress": progressed()}[r.tool]
	if want != "" && r.text != want {
		bad(r, "returned the answer to another call")
	}
}

// wrongCount finds a call that ran twice, or ran although its error says that
// it cannot have.
func wrongCount(r *record, ran int, bad complain) {
	e := r.failure()
	switch {
	case ran > 1:
		bad(r, "ran %d times", ran)
	case r.err == nil && ran != 1:
		bad(r, "succeeded and never ran")
	case e != nil && e.Outcome == mcpvisor.OutcomeNotSent && ran > 0:
		bad(r, "ran, and its error says that nothing was sent")
	}
}

// wrongError finds errors that no fault explains, and a crash of an
// incarnation that was not there.
func wrongError(ev evidence, r *record, all []*incarnation, bad complain) {
	e := r.failure()
	if e == nil {
		bad(r, "is not a *mcpvisor.Error")
		return
	}
	// A server without sessions that was broken when it was asked for its version is
	// spoken to in an older one, in which it cannot ask.
	mute := ev.web[r.server] && r.tool == "consult" && e.Kind == mcpvisor.KindRPC
	if !slices.Contains(allowed, e.Kind) && !(ev.web[r.server] && e.Kind == mcpvisor.KindProtocol) && !mute {
		bad(r, "is of kind %q", e.Kind)
	}
	if e.Outcome == mcpvisor.OutcomeNone {
		bad(r, "does not say whether the request was sent")
	}
	if e.Kind != mcpvisor.KindCrashed {
		return
	}
	if !slices.ContainsFunc(all, func(l *incarnation) bool {
		return l.server == r.server && l.gen == e.Gen && l.epoch == e.Epoch && l.served(r.began, r.ended)
	}) {
		bad(r, "speaks of gen %d, epoch %d, which did not serve then", e.Gen, e.Epoch)
	}
}

// wrongInstance finds answers of an incarnation that was not in service, or of
// two incarnations that are one and the same.
func wrongInstance(ev evidence, answered []*record, all []*incarnation, bad complain) {
	first := answered[0]
	if !ev.processes[first.server] && !ev.routines[first.server] {
		return
	}
	fits := func(l *incarnation) bool {
		if l.server != first.server || ev.processes[l.server] && l.pid != first.who.PID {
			return false
		}
		return !slices.ContainsFunc(answered, func(r *record) bool { return !l.served(r.began, r.ended) })
	}
	if !slices.ContainsFunc(all, fits) {
		bad(first, "instance %s answered %d calls, and no incarnation served all of them", first.who.Instance, len(answered))
	}
}
