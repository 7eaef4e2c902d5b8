package protocol

import (
	"cmp"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// mostRenewals are how many renewals may be unanswered: one that hangs must not keep the next from
// being sent, and a store that is away must not collect them.
const mostRenewals = 4

// advanceLease does what is due: asks for a lease, writes the key, renews.
func (n *Node) advanceLease() {
	if n.state == StateFencing && !n.runsExclusive() {
		n.do(Effect{Kind: EffectRevoke, Lease: n.lease})
		n.lease, n.life, n.state = 0, "", StateApart
	}
	if n.state == StateApart && n.leaving { // without a lease there is nothing to hand over
		n.endAll()
		if len(n.servers) == 0 {
			n.leave()
		}
		return
	}
	if n.inForce() {
		if n.now >= n.nextRenewal {
			n.nextRenewal = n.now + n.config.RenewEvery
			if n.renewals < mostRenewals {
				n.renewals++
				n.ask(Effect{Kind: EffectRenew, Lease: n.lease}, request{})
			}
		}
		n.wake(n.deadline)
		n.wake(n.nextRenewal)
	}
	if n.asked {
		return
	}
	apart := n.state == StateApart
	if !apart && n.state != StateRegistering && (n.state != StateMember || !n.recordDue) {
		return
	}
	if n.now < n.retryAt {
		n.wake(n.retryAt)
		return
	}
	n.asked = true
	if apart {
		n.ask(Effect{Kind: EffectGrant, TTL: n.config.TTL}, request{})
		return
	}
	n.recordDue = false
	record := n.config.Node
	record.Life, record.Draining = n.life, n.draining
	key := records.NodeKey(record.ID, n.life)
	condition := store.Absent(key)
	if n.state == StateMember { // another program may have added fields
		condition = store.Unchanged(key, n.registered)
	}
	n.ask(Effect{Kind: EffectCommit, Txn: store.Txn{
		If: []store.Condition{condition}, Then: []store.Change{store.PutLeased(key, records.Encode(record, n.recordRest), n.lease)},
	}}, request{})
}

func (n *Node) takeGrant(r request, in Input) {
	n.asked = false
	switch {
	case in.Kind != InputGranted:
		n.retryAt = n.now + n.config.Retry
	default: // if it came too late, the next step ends the life
		n.state, n.lease, n.life, n.registered, n.renewals = StateRegistering, in.Lease, lifeOf(in.Lease), 0, 0
		n.recordRest = nil
		n.nextRenewal = r.sent + n.config.RenewEvery
		n.extend(r)
	}
}

func (n *Node) takeRenewal(r request, in Input) {
	if r.life != n.life || !n.inForce() {
		return
	}
	n.renewals--
	switch in.Kind {
	case InputRenewed:
		n.extend(r)
	case InputLeaseGone:
		n.fence()
	default:
	}
}

// deadlineOf is how long a life is in force by a lease that was granted or renewed by a request.
func (n *Node) deadlineOf(r request) time.Duration {
	return r.sent + n.config.TTL - n.config.Margin
}

func (n *Node) extend(r request) {
	deadline := n.deadlineOf(r)
	if r.kind == EffectGrant || deadline > n.deadline {
		n.deadline = deadline
		n.do(Effect{Kind: EffectDeadline, At: deadline, Lease: n.lease})
	}
}

// takeRecord follows the own key.
func (n *Node) takeRecord(r request, in Input) {
	if r.life != n.life {
		return // of a former life, which asks no more
	}
	n.asked = false
	if !n.inForce() {
		return
	}
	switch {
	case in.Kind == InputLeaseGone:
		n.fence()
	case in.Kind != InputCommitted:
		n.retryAt = n.now + n.config.Retry
		n.recordDue = n.recordDue || n.state == StateMember
	case n.state == StateMember && in.Result.OK:
		n.registered = max(n.registered, in.Result.Revision)
	case n.state == StateMember && len(in.Result.Current) == 0:
		n.fence() // the key has gone
	case n.state == StateMember:
		n.recordDue, n.retryAt = true, n.now+n.config.Retry
		for _, pair := range in.Result.Current {
			n.apply(store.Event{Pair: pair})
			n.registered = max(n.registered, pair.Revision) // although it cannot be read: it is ours
		}
	default: // not OK: the key exists, so an earlier commit was carried out
		n.registered = in.Result.Revision
		for _, pair := range in.Result.Current {
			n.registered = pair.Revision
		}
		n.recordDue = n.draining // a former life's commit may have been made before
		n.join()
	}
}

// join makes the node a member.
func (n *Node) join() {
	n.state, n.cutOff = StateMember, 0
	n.planner = placement.NewPlanner(n.config.Placement, n.life, n.now)
	for name := range n.servers {
		n.planner.Hold(name, true)
	}
	for name := range n.refused {
		n.planner.Refuse(name, true)
	}
}

// keyWritten follows the own key, which other nodes may write, too.
func (n *Node) keyWritten(key string, rest records.Rest, revision int64) {
	if n.inForce() && revision >= n.registered && key == records.NodeKey(n.config.Node.ID, n.life) {
		n.registered, n.recordRest = revision, rest
	}
}

// keyGone follows the removal of a key by a revision that the view has.
func (n *Node) keyGone(key string, revision int64) {
	if n.state == StateMember && key == records.NodeKey(n.config.Node.ID, n.life) && revision > n.registered {
		n.fence()
	}
}

// fence ends the life. It claims, releases and starts nothing further.
func (n *Node) fence() {
	if n.state == StateMember {
		n.fences++
		n.cutOff = n.now
	}
	n.state, n.planner, n.asked = StateFencing, nil, false
	n.do(Effect{Kind: EffectDeadline})
	for _, name := range sortedKeys(n.servers) {
		if s := n.servers[name]; s.exclusive {
			n.end(name, s, true)
		}
	}
}

func (n *Node) endAll() {
	for _, name := range sortedKeys(n.servers) {
		n.end(name, n.servers[name], true)
	}
}

func (n *Node) runsExclusive() bool {
	for _, s := range n.servers {
		if s.exclusive {
			return true
		}
	}
	return false
}

// finishDrain follows what is left of a drain.
func (n *Node) finishDrain() {
	if !n.draining || n.state != StateMember || !n.watch.current || !n.view.Draining(n.life) {
		return
	}
	if len(n.servers) > 0 || len(n.releasing) > 0 || len(n.view.Owned(n.life)) > 0 || n.claimsOpen() {
		n.saidDrained = false
		return
	}
	if !n.saidDrained {
		n.saidDrained = true
		n.do(Effect{Kind: EffectDrained})
	}
	if n.leaving {
		n.do(Effect{Kind: EffectRevoke, Lease: n.lease})
		n.leave()
	}
}

// claimsOpen reports whether a claim of this life may still be carried out.
func (n *Node) claimsOpen() bool {
	for _, r := range n.requests {
		if r.claim && r.life == n.life {
			return true
		}
	}
	return false
}

func (n *Node) leave() {
	n.state, n.cutOff = StateLeft, cmp.Or(n.cutOff, n.now)
	n.do(Effect{Kind: EffectLeft})
}
