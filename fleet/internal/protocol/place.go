package protocol

import (
	"slices"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// place carries out what the planner decides, and makes the servers that run here those that the
// view says should.
func (n *Node) place() {
	if n.state == StateMember {
		for _, e := range n.planner.Step(n.now, n.view) {
			switch e.Kind {
			case placement.EffectClaim:
				rest := n.placeRest[e.Name]
				txn := claim(e.Name, e.Place, rest, e.Revision, n.config.Node.ID, n.life)
				moves := n.view.Move(e.Name) != ""
				if moves { // done, or the node that was to take it has not
					txn.Then = append(txn.Then, store.Remove(records.MoveKey(e.Name)))
				}
				n.ask(Effect{Kind: EffectCommit, Txn: txn}, request{name: e.Name, claim: true, rest: rest, moves: moves, place: placement.Place{
					Node: n.config.Node.ID, Life: n.life, Epoch: e.Place.Epoch + 1,
				}})
			case placement.EffectRelease:
				n.release(e.Name)
			}
		}
		n.wake(n.planner.Due())
		n.startOwned()
	}
	n.endForeign()
}

// startOwned starts what the own life has, and gives back what has ended.
func (n *Node) startOwned() {
	for _, name := range n.view.Owned(n.life) {
		place, revision := n.view.Place(name)
		s := n.servers[name]
		switch spec, known := n.view.Spec(name); {
		case s != nil && (s.ending || s.epoch >= place.Epoch):
		case s != nil: // of an earlier life; an exclusive one has ended before this life began
			s.epoch = place.Epoch
			n.do(Effect{Kind: EffectAdopt, Name: name, Epoch: s.epoch})
		case place.Epoch > n.ended[name] && known:
			n.servers[name] = &startedServer{epoch: place.Epoch, exclusive: spec.Exclusive}
			n.do(Effect{Kind: EffectStart, Name: name, Epoch: place.Epoch, Spec: spec})
		case n.releasing[name]:
		case n.now < n.releaseAt[name]:
			n.wake(n.releaseAt[name])
		default:
			n.ended[name] = max(n.ended[name], place.Epoch)
			n.releasing[name] = true
			place.Released = true
			rest := n.placeRest[name]
			n.ask(Effect{Kind: EffectCommit, Txn: release(name, place, rest, revision)}, request{name: name, place: place, rest: rest})
		}
	}
}

// release ends the server of a name; the commit follows when it has ended. The server may be of an epoch before
// that of the place, which this life has claimed only now: it does not start again under the place's.
func (n *Node) release(name string) {
	place, _ := n.view.Place(name)
	n.ended[name] = max(n.ended[name], place.Epoch)
	if s := n.servers[name]; s != nil {
		n.end(name, s, false)
	}
}

// endForeign ends servers whose name has another owner, or no specification. One that was started
// by a former life, and that no node has claimed since, keeps running.
func (n *Node) endForeign() {
	var foreign []string
	for name, s := range n.servers {
		place, _ := n.view.Place(name)
		if n.state == StateMember && place.Life == n.life && !place.Released {
			continue
		}
		if _, known := n.specs[name]; !known || place.Epoch > s.epoch {
			foreign = append(foreign, name)
		}
	}
	slices.Sort(foreign)
	for _, name := range foreign {
		s := n.servers[name]
		n.end(name, s, s.exclusive)
	}
}

func (n *Node) end(name string, s *startedServer, now bool) {
	if s.ending && (s.atOnce || !now) {
		return
	}
	s.ending, s.atOnce = true, now
	n.do(Effect{Kind: EffectEnd, Name: name, Epoch: s.epoch, Now: now})
}

func (n *Node) takeEnd(name string, epoch uint64) {
	s := n.servers[name]
	if s == nil || s.epoch != epoch {
		return
	}
	delete(n.servers, name)
	n.ended[name] = max(n.ended[name], epoch)
	if n.planner != nil {
		n.planner.Hold(name, false)
	}
}
