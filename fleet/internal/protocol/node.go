package protocol

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Config is what a node is. Zero durations have their defaults.
type Config struct {
	// Node is the record of the node, without its life. ID must not contain "/".
	Node placement.Node
	// TTL of the lease. Default: 8 s.
	TTL time.Duration
	// RenewEvery is the time between renewals. Default: a quarter of TTL.
	RenewEvery time.Duration
	// Margin is how long before the end of the lease, as the node reckons it, the life is over.
	// Default: an eighth of TTL. Negative: none, which is unsafe and for tests.
	Margin time.Duration
	// Silence is how long a watch may yield nothing before it is begun again. Stores report
	// progress more often. Default: 6 s.
	Silence time.Duration
	// Retry is the pause after a request that failed. Default: 500 ms.
	Retry time.Duration
	// Placement has the rates of placement.
	Placement placement.Policy
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 8*time.Second)
	c.RenewEvery = cmp.Or(c.RenewEvery, c.TTL/4)
	c.Margin = max(cmp.Or(c.Margin, c.TTL/8), 0)
	c.Silence = cmp.Or(c.Silence, 6*time.Second)
	c.Retry = cmp.Or(c.Retry, 500*time.Millisecond)
	return c
}

// State is where a node is with its lease.
type State int

const (
	// StateApart: the node has no lease and asks for one.
	StateApart State = iota
	// StateRegistering: it has a lease, and writes its key.
	StateRegistering
	// StateMember: its key is written, and the deadline is ahead.
	StateMember
	// StateFencing: the life is over, and exclusive servers of it are being ended.
	StateFencing
	// StateLeft: the node has left.
	StateLeft
)

// String is the name of the state, in lower case.
func (s State) String() string {
	return [...]string{"apart", "registering", "member", "fencing", "left"}[s]
}

// Node is the protocol of one node. It is not safe for concurrent use.
type Node struct {
	config Config

	// The lease. Renewals begin at nextRenewal; retryAt is when a grant or a registration that
	// failed is tried again.
	state       State
	lease       store.Lease
	life        string
	deadline    time.Duration
	nextRenewal time.Duration
	retryAt     time.Duration
	asked       bool  // for a lease or to write the key, and not answered
	registered  int64 // the revision of the key, as far as it is known
	renewals    int   // not answered
	// fences counts the lives whose end was a fence; cutOff is since when the node is no member, 0 while it
	// is one.
	fences uint64
	cutOff time.Duration

	draining bool
	leaving  bool
	// recordRest are fields of the own record that this program does not know.
	recordRest records.Rest
	// recordDue: the key must be written again, because it does not say yet that the node drains.
	recordDue   bool
	saidDrained bool

	// watching what the store has; see watch.go.
	view    *placement.View
	watch   watchState
	planner *placement.Planner

	// What the view does not have: whole specifications, fields of places that this program does not
	// know, the definition of the gateways, and the last configuration. The fields with "changed", and
	// told, are for tell.
	specs          map[string]records.Spec
	placeRest      map[string]records.Rest
	gateway        json.RawMessage // nil without one
	generation     records.Generation
	specsChanged   map[string]bool
	gatewayChanged bool
	told           map[string]told

	servers map[string]*startedServer
	refused map[string]bool // what this node cannot run
	// ended are the highest epochs that have ended here, or never start.
	ended map[string]uint64
	// releasing are releases that are committed and not answered; releaseAt is when one that
	// failed is tried again.
	releasing map[string]bool
	releaseAt map[string]time.Duration

	requests    map[uint64]request
	lastRequest uint64

	now     time.Duration
	due     time.Duration
	effects []Effect
	// Malformed counts records that could not be read.
	malformed int
}

// startedServer is a server that was started here and has not ended.
type startedServer struct {
	epoch     uint64
	exclusive bool
	ending    bool // EffectEnd was given
	atOnce    bool // with Now
}

// request is a request that is not answered.
type request struct {
	kind  EffectKind
	life  string
	sent  time.Duration
	name  string          // of a claim or a release
	place placement.Place // that the commit writes
	rest  records.Rest
	claim bool
	moves bool // the claim ends a move
}

// New makes a node that has not joined yet.
func New(c Config) *Node {
	c = c.withDefaults()
	return &Node{
		config: c, view: placement.NewView(c.Placement), servers: map[string]*startedServer{}, refused: map[string]bool{},
		ended: map[string]uint64{}, releasing: map[string]bool{}, releaseAt: map[string]time.Duration{},
		requests: map[uint64]request{}, specs: map[string]records.Spec{}, placeRest: map[string]records.Rest{},
		specsChanged: map[string]bool{}, told: map[string]told{},
	}
}

// State is where the node is with its lease.
func (n *Node) State() State { return n.state }

// Life is the current life; "" without a lease.
func (n *Node) Life() string { return n.life }

// Deadline is when the life is over; meaningless without one.
func (n *Node) Deadline() time.Duration { return n.deadline }

// Due is when Step needs an InputTick, if no other input comes before.
func (n *Node) Due() time.Duration { return n.due }

// View returns what the node knows of the fleet. It must not be changed.
func (n *Node) View() *placement.View { return n.view }

// Malformed counts records of the store that could not be read.
func (n *Node) Malformed() int { return n.malformed }

// Step takes one input at time now, and returns what to do, in order. The first is an InputTick.
func (n *Node) Step(now time.Duration, in Input) []Effect {
	n.now, n.due, n.effects = now, now+time.Hour, nil
	if n.state == StateLeft {
		return nil
	}
	// First of all: an answer that comes after the deadline does not extend the life.
	if n.inForce() && now >= n.deadline {
		n.fence()
	}
	n.take(in)
	n.tell()
	n.advanceLease()
	n.advanceWatch()
	n.place()
	n.finishDrain()
	return n.effects
}

// inForce reports whether there is a life.
func (n *Node) inForce() bool { return n.state == StateRegistering || n.state == StateMember }

func (n *Node) take(in Input) {
	switch in.Kind {
	case InputBatch:
		n.takeBatch(in)
	case InputWatchEnded:
		n.takeWatchEnd(in)
	case InputEnded:
		n.takeEnd(in.Name, in.Epoch)
	case InputFence:
		if n.inForce() {
			n.fence()
			n.retryAt = n.now + n.config.Retry
		}
	case InputRefuse:
		if in.Refuses {
			n.refused[in.Name] = true
		} else {
			delete(n.refused, in.Name)
		}
		if n.planner != nil {
			n.planner.Refuse(in.Name, in.Refuses)
		}
	case InputDrain, InputLeave:
		n.leaving = n.leaving || in.Kind == InputLeave
		n.recordDue = n.recordDue || !n.draining
		n.draining = true
	case InputTick:
	default:
		r, asked := n.requests[in.Request]
		if !asked {
			return
		}
		delete(n.requests, in.Request)
		n.answer(r, in)
	}
}

func (n *Node) answer(r request, in Input) {
	switch r.kind {
	case EffectGrant:
		n.takeGrant(r, in)
	case EffectRenew:
		n.takeRenewal(r, in)
	case EffectRead:
		n.takeSnapshot(in)
	case EffectCommit:
		n.takeCommit(r, in)
	default:
	}
}

func (n *Node) takeCommit(r request, in Input) {
	if r.name == "" {
		n.takeRecord(r, in)
		return
	}
	if in.Kind == InputCommitted {
		if in.Result.OK {
			n.setPlace(r.name, r.place, r.rest, in.Result.Revision)
			if r.moves { // otherwise the planner would release the name until the watch says so
				n.view.SetMove(r.name, "")
			}
		}
		for _, pair := range in.Result.Current {
			if pair.Key == records.PlaceKey(r.name) {
				n.apply(store.Event{Pair: pair})
			}
		}
	}
	switch {
	case !r.claim:
		delete(n.releasing, r.name)
		if in.Kind != InputCommitted {
			n.releaseAt[r.name] = n.now + n.config.Retry
		}
	case r.life == n.life && n.planner != nil:
		n.planner.Claimed(r.name)
	}
	if in.Kind == InputLeaseGone && r.life == n.life && n.inForce() {
		n.fence()
	}
}

func (n *Node) do(e Effect) { n.effects = append(n.effects, e) }

// ask does an effect that is answered.
func (n *Node) ask(e Effect, r request) {
	n.lastRequest++
	e.Request = n.lastRequest
	r.kind, r.life, r.sent = e.Kind, n.life, n.now
	n.requests[e.Request] = r
	n.do(e)
}

func (n *Node) wake(at time.Duration) { n.due = min(n.due, at) }
