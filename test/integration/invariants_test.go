//go:build linux

package integration

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// evidence is everything that was recorded about one client in one round.
type evidence struct {
	events  []mcpvisor.Event
	records []*record
	open    int
	// executions is how often each key was executed, as counted by the servers.
	executions map[string]int
	// processes marks the servers that run as processes; the pid identifies the
	// incarnation.
	processes map[string]bool
	// inMemory marks the servers that run in this process and end with their
	// incarnation. An HTTP server, in contrast, may outlive a session.
	inMemory map[string]bool
	// overHTTP marks the servers whose answers may be broken: behind HTTP, or with
	// garbled answers.
	overHTTP map[string]bool
	// faultFree marks the servers without injected faults, synced those that Apply replaces,
	// and narrow those whose limits refuse calls.
	faultFree, synced, narrow map[string]bool
	// bounded are the policies of servers that are given up and that only the storm restarts.
	bounded map[string]supervisor.Policy
	// starts is the number that the lists of an incarnation carried.
	starts map[incarnationKey]int
}

// maxLateness is how much later than its bound a call may return. It is generous,
// because the invariant is about calls that hang.
const maxLateness = 10 * time.Second

// allowedKinds are the kinds of errors that faults explain. Other kinds would mean that
// an answer was garbled or the client is broken.
var allowedKinds = []mcpvisor.ErrorKind{mcpvisor.ErrUnknownServer, mcpvisor.ErrUnavailable, mcpvisor.ErrCrashed,
	mcpvisor.ErrEnded, mcpvisor.ErrTimeout, mcpvisor.ErrCanceled, mcpvisor.ErrClosed}

// violations checks every invariant and returns a text for each violation.
func violations(ev evidence) []string {
	all, wrong := incarnations(ev.events)
	wrong = append(wrong, wrongBudgets(ev)...)
	for _, l := range all {
		if ev.faultFree[l.server] && l.epoch != 1 {
			wrong = append(wrong, fmt.Sprintf("%s has an epoch %d without injected faults", l.server, l.epoch))
		}
	}
	refused := map[string]bool{}
	if ev.open > 0 {
		wrong = append(wrong, fmt.Sprintf("%d calls never returned", ev.open))
	}
	violated := func(r *record, format string, args ...any) {
		wrong = append(wrong, r.String()+": "+fmt.Sprintf(format, args...))
	}
	instances := map[string][]*record{}
	for _, r := range ev.records {
		if took := r.ended.Sub(r.began); took > r.bound+maxLateness {
			violated(r, "took %v and was bounded by %v", took, r.bound)
		}
		if ev.faultFree[r.server] && r.err != nil {
			violated(r, "failed on a server without injected faults")
		}
		if r.err == nil {
			checkText(r, violated)
		} else {
			checkError(ev, r, all, violated)
			if e := r.failure(); e != nil && e.Kind == mcpvisor.ErrOverloaded {
				refused[r.server] = true
			}
		}
		if r.tool == "count" {
			checkExecutions(r, ev.executions[r.key], violated)
		} else if n := ev.executions[r.key]; n != 0 {
			violated(r, "ran under the key of another call, %d times", n)
		}
		if r.tool == "pid" && r.err == nil {
			instances[r.server+" "+r.answeredBy.Instance] = append(instances[r.server+" "+r.answeredBy.Instance], r)
		}
	}
	for _, answered := range instances {
		checkInstance(ev, answered, all, violated)
	}
	for server := range ev.narrow {
		if !refused[server] {
			wrong = append(wrong, server+" refused no call, although more were made than its limits allow")
		}
	}
	return wrong
}

type reportFunc = func(r *record, format string, args ...any)

// checkText reports a call that returned the answer to another call.
func checkText(r *record, violated reportFunc) {
	want := map[string]string{"echo": r.key, "read": r.key, "prompt": "Greet " + r.key + ".",
		"consult": r.key, "slow_progress": expectedProgress()}[r.tool]
	if want != "" && r.text != want {
		violated(r, "returned the answer to another call")
	}
}

// checkExecutions reports a call that ran twice, or ran although its error says that
// nothing was sent.
func checkExecutions(r *record, ran int, violated reportFunc) {
	e := r.failure()
	switch {
	case ran > 1:
		violated(r, "ran %d times", ran)
	case r.err == nil && ran != 1:
		violated(r, "succeeded and never ran")
	case e != nil && e.Outcome == mcpvisor.OutcomeNotSent && ran > 0:
		violated(r, "ran, and its error says that nothing was sent")
	}
}

// checkError reports an error that no fault explains, and a crash of an incarnation
// that was not ready during the call.
func checkError(ev evidence, r *record, all []*incarnation, violated reportFunc) {
	e := r.failure()
	if e == nil {
		violated(r, "is not a *mcpvisor.Error")
		return
	}
	// If a fault hits server/discover of a server without sessions, the client falls
	// back to an older version, in which such a server cannot request input.
	cannotAsk := ev.overHTTP[r.server] && r.tool == "consult" && e.Kind == mcpvisor.ErrRPC
	_, bounded := ev.bounded[r.server]
	explained := slices.Contains(allowedKinds, e.Kind) || ev.overHTTP[r.server] && e.Kind == mcpvisor.ErrProtocol || cannotAsk ||
		ev.narrow[r.server] && e.Kind == mcpvisor.ErrOverloaded || bounded && e.Kind == mcpvisor.ErrEvicted
	if !explained {
		violated(r, "is of kind %q", e.Kind)
	}
	if e.Outcome == mcpvisor.OutcomeNone {
		violated(r, "does not say whether the request was sent")
	}
	if e.Kind != mcpvisor.ErrCrashed && e.Kind != mcpvisor.ErrEnded {
		return
	}
	if !slices.ContainsFunc(all, func(l *incarnation) bool {
		return l.server == r.server && l.gen == e.Gen && l.epoch == e.Epoch && l.served(r.began, r.ended)
	}) {
		violated(r, "names gen %d, epoch %d, which was not ready during the call", e.Gen, e.Epoch)
	}
}

// checkInstance reports answers of an incarnation that was not ready, and of one
// instance in two incarnations.
func checkInstance(ev evidence, answered []*record, all []*incarnation, violated reportFunc) {
	first := answered[0]
	if !ev.processes[first.server] && !ev.inMemory[first.server] {
		return
	}
	fits := func(l *incarnation) bool {
		if l.server != first.server || ev.processes[l.server] && l.pid != first.answeredBy.PID {
			return false
		}
		if start, listed := ev.starts[incarnationKey{l.server, l.gen, l.epoch}]; listed && start != first.answeredBy.Start {
			return false
		}
		return !slices.ContainsFunc(answered, func(r *record) bool { return !l.served(r.began, r.ended) })
	}
	if !slices.ContainsFunc(all, fits) {
		violated(first, "instance %s answered %d calls, and no incarnation served all of them", first.answeredBy.Instance, len(answered))
	}
}
