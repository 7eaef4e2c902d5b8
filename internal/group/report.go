package group

import (
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// State is the state of a member, as its group needs it.
type State string

const (
	// StateUnknown: nothing was reported.
	StateUnknown State = ""
	// StateStarting: an incarnation starts, or the members of a group do.
	StateStarting State = "starting"
	// StateReady: in service. A group stays ready while its members are restarted or rest: [Report.Within].
	StateReady State = "ready"
	// StateEnding: an incarnation has ended and is being released.
	StateEnding State = "ending"
	// StateDown: nothing runs, and the member tries again by itself, later.
	StateDown State = "down"
	// StateWaiting: nothing runs; the member would start, and is held.
	StateWaiting State = "waiting"
	// StateStopped: the operator stopped the member, or must authorize it.
	StateStopped State = "stopped"
	// StateBlocked: what is left to start of a group waits for one that is stopped. Its other members may run.
	StateBlocked State = "blocked"
	// StateAsleep: nothing wants the member.
	StateAsleep State = "asleep"
	// StateResting: the member exited after its work.
	StateResting State = "resting"
	// StateFailed: a group has failed and waits for its parent's order to start again.
	StateFailed State = "failed"
	// StateGivenUp: the member does not start again by itself.
	StateGivenUp State = "given up"
)

// rule says what a state of a member means for the others.
type rule struct {
	runs    bool // it is to be ended when its turn comes
	live    bool // something is left of it: those in front of it do not end before
	settled bool // for the order of the group: the next one may start
	rests   bool // it starts when it is wanted, or the operator starts it
	// need says what the members that come after it do.
	need verdict
}

// verdict says what a member does because of one that it comes after.
type verdict int

const (
	pass    verdict = iota // start
	bounded                // wait until it is ready, or the bound is over
	wake                   // wake it, and wait until it is ready
	stay                   // wait for the operator, or a group: no bound, and no failure
)

// rules is the table of the states.
var rules = map[State]rule{
	StateUnknown:  {need: stay},
	StateStarting: {runs: true, live: true, need: bounded},
	StateReady:    {runs: true, live: true, settled: true, need: pass},
	StateEnding:   {live: true, need: bounded},
	StateDown:     {need: bounded},
	StateWaiting:  {need: stay},
	StateStopped:  {settled: true, rests: true, need: stay},
	StateBlocked:  {runs: true, live: true, settled: true, need: stay},
	StateAsleep:   {settled: true, rests: true, need: wake},
	StateResting:  {settled: true, rests: true, need: wake},
	StateFailed:   {need: stay},
	StateGivenUp:  {settled: true, need: stay},
}

// Order is what a group orders a member.
type Order string

const (
	// OrderHold: end as planned, and start only when ordered.
	OrderHold Order = "hold"
	// OrderPark: like OrderHold; the group has failed.
	OrderPark Order = "park"
	// OrderClear: start.
	OrderClear Order = "clear"
	// OrderRenew: start afresh, also if given up.
	OrderRenew Order = "renew"
	// OrderEnd: end as planned, for a temporary member.
	OrderEnd Order = "end"
	// OrderEvict: end as planned; the group is evicted.
	OrderEvict Order = "evict"
	// OrderKeep: continue as you are, in this group; orders of an earlier group are too late from now on.
	OrderKeep Order = "keep"
)

// orders says which input of a lifecycle an order is, and which order replaces another one of a drain.
var orders = map[Order]struct {
	input lifecycle.InputKind
	rank  int // 0: a start
}{
	OrderHold: {lifecycle.InputHold, 1}, OrderPark: {lifecycle.InputHold, 2}, OrderEnd: {lifecycle.InputGiveUp, 2}, OrderEvict: {lifecycle.InputGiveUp, 3},
	OrderClear: {lifecycle.InputClear, 0}, OrderRenew: {lifecycle.InputRenew, 0},
}

func (o Order) ends() bool { return orders[o].rank > 0 }

// Report is the whole of what a group knows of a member. A member sends one whenever it changes, and after
// each order. A report of one order replaces all earlier ones; none must overtake another one.
type Report struct {
	// Seq is the number of the last order that the member has taken. Order is the last one that was not
	// OrderKeep, and OrderSeq its number.
	Seq, OrderSeq uint64
	Order         Order
	State         State
	// Held: the member starts only when ordered. Grouped: it holds itself when it ends.
	Held, Grouped bool
	// Within, of a group that is ready, is the state of a member that is not: one that comes after the group waits for it, or
	// wakes it. Empty if all are ready.
	Within State
	// Failures since the last order that ended the member.
	Failures uint64
	Cause    *supervisor.Cause // of the last end; may be nil
}

// Link is the end of a member: which orders it has taken. A member that moves to another group begins a new one.
type Link struct {
	seq, orderSeq uint64
	order         Order
	base          uint64 // the failures that the group knows
}

// Take returns the input of the lifecycle for an order of the group. It takes no order
// that is older than the last one. The member answers each order that it takes with a report.
func (k *Link) Take(l *lifecycle.Lifecycle, e Effect) (lifecycle.Input, bool) {
	if e.Seq <= k.seq {
		return lifecycle.Input{}, false
	}
	k.seq = e.Seq
	if e.Order == OrderKeep {
		if l.Held() || rules[stateOf(l)].rests {
			return lifecycle.Input{Kind: lifecycle.InputHold}, true
		}
		return lifecycle.Input{Kind: lifecycle.InputClear}, true
	}
	k.order, k.orderSeq = e.Order, e.Seq
	if e.Order.ends() {
		k.base = l.Failures()
	}
	return lifecycle.Input{Kind: orders[e.Order].input, Cause: e.Cause}, true
}

// ReportOf describes a server to its group.
func ReportOf(l *lifecycle.Lifecycle, k *Link) Report {
	return Report{Seq: k.seq, OrderSeq: k.orderSeq, Order: k.order, State: stateOf(l), Held: l.Held(), Grouped: l.Grouped(), Failures: l.Failures() - k.base, Cause: l.Cause()}
}

func stateOf(l *lifecycle.Lifecycle) State {
	switch l.State() {
	case supervisor.StateConnecting, supervisor.StateDiscovering:
		return StateStarting
	case supervisor.StateReady:
		return StateReady
	case supervisor.StateClosing, supervisor.StateStopping:
		return StateEnding
	case supervisor.StateBackoff, supervisor.StateParked:
		return StateDown
	case supervisor.StateWaiting:
		return StateWaiting
	case supervisor.StateAsleep:
		return StateAsleep
	case supervisor.StateResting:
		return StateResting
	case supervisor.StateStopped, supervisor.StateUnauthorized:
		return StateStopped
	case supervisor.StateEvicted:
		if l.Fenced() {
			return StateStopped
		}
		return StateGivenUp
	case supervisor.StateUnregistered:
		return StateGivenUp
	default:
	}
	return StateUnknown
}
