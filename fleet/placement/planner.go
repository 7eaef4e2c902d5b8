package placement

import (
	"cmp"
	"slices"
	"time"
)

// Policy has the rates of placement. Zero fields have their defaults.
type Policy struct {
	// Step is how long each candidate waits for the one before it to claim the name. Default: 1 s.
	Step time.Duration
	// Settle is how long a node that has joined waits before it claims, so that those that join
	// at the same time get their shares. Default: 1 s.
	Settle time.Duration
	// MaxClaims is how many claims of a node may be unanswered. Default: 32.
	MaxClaims int
	// MaxReleases is how many servers a node hands over at one time. Default: 8.
	MaxReleases int
	// Retry is when a claim that failed is tried again, if nothing else is known. Default: 1 s.
	Retry time.Duration
	// RebalanceAfter is how long the nodes must stay the same before one of them hands over what
	// is beyond its bound. Default: 10 s.
	RebalanceAfter time.Duration
}

func (p Policy) withDefaults() Policy {
	return Policy{
		Step: cmp.Or(p.Step, time.Second), Settle: cmp.Or(p.Settle, time.Second),
		MaxClaims: cmp.Or(p.MaxClaims, 32), MaxReleases: cmp.Or(p.MaxReleases, 8),
		Retry: cmp.Or(p.Retry, time.Second), RebalanceAfter: cmp.Or(p.RebalanceAfter, 10*time.Second),
	}
}

// EffectKind says what the caller of [Planner.Step] must do.
type EffectKind int

const (
	// EffectClaim: commit a claim, and tell its end with [Planner.Claimed].
	EffectClaim EffectKind = iota + 1
	// EffectRelease: end the server, and commit the release until the view has it. If the name has
	// another owner by then, nothing is left to do.
	EffectRelease
)

// Effect is a decision about one name.
type Effect struct {
	Kind EffectKind
	Name string
	// Place and Revision are the record that the decision is based on. The commit must fail if the
	// record has changed.
	Place    Place
	Revision int64
}

// Planner decides for one life of a node which names it claims and releases. It is not safe for
// concurrent use.
type Planner struct {
	policy Policy
	life   string
	joined time.Duration
	// held are names whose servers run here although no living place says so: this node claims
	// them first.
	held map[string]bool
	// refused are names that this node cannot run: it leaves them to others.
	refused map[string]bool

	claims map[string]bool // not answered
	// releases are decided, and not carried out: the view has the name with this life and the epoch
	// of the decision, or, if it is surplus, with no node. So surplus leaves only as fast as others
	// take it.
	releases map[string]released

	queue      []candidacy             // a heap; the first is due first
	queued     map[*name]time.Duration // when the candidacy that counts is due; another one of the name is stale
	news       int                     // how many of the view's news were read
	generation uint64
	due        time.Duration
}

type released struct {
	surplus bool
	epoch   uint64
}

type candidacy struct {
	due  time.Duration
	name *name
}

// NewPlanner makes the planner of a life that joined at time now.
func NewPlanner(p Policy, lifeID string, now time.Duration) *Planner {
	return &Planner{
		policy: p.withDefaults(), life: lifeID, joined: now, held: map[string]bool{}, refused: map[string]bool{},
		claims: map[string]bool{}, releases: map[string]released{}, queued: map[*name]time.Duration{},
	}
}

// Hold says that the server of a name runs here already, from an earlier life of the node.
func (p *Planner) Hold(server string, holds bool) {
	if holds {
		p.held[server] = true
	} else {
		delete(p.held, server)
	}
	p.generation = 0
}

// Refuse says that this node cannot run a server, or that it can again. It does not claim it, and
// releases it. Other nodes do not know that, and leave it the steps of a candidate.
func (p *Planner) Refuse(server string, refuses bool) {
	if refuses {
		p.refused[server] = true
	} else {
		delete(p.refused, server)
	}
	p.generation = 0
}

// Claimed says that a claim has ended: it failed, its outcome is unknown, or the view has it.
func (p *Planner) Claimed(server string) { delete(p.claims, server) }

// Due is when [Planner.Step] has something to do although the view does not change.
func (p *Planner) Due() time.Duration { return p.due }

// Step decides at time now, by what the node knows. It must be called after every change of the
// view, after [Planner.Claimed], and when [Planner.Due] has come.
func (p *Planner) Step(now time.Duration, v *View) []Effect {
	p.due = now + time.Hour
	self := v.lives[p.life]
	if self == nil {
		return nil // the watch has not come to our own key yet
	}
	return append(p.claim(now, v, self), p.release(now, v, self)...)
}

func (p *Planner) claim(now time.Duration, v *View, self *life) (effects []Effect) {
	p.read(now, v)
	if begin := p.joined + p.policy.Settle; now < begin {
		p.wake(begin)
		return nil
	}
	var later []candidacy
	for len(p.queue) > 0 && p.queue[0].due <= now && len(p.claims) < p.policy.MaxClaims {
		n, stale := p.pop()
		if stale || !n.unplaced {
			continue
		}
		due, candidate := p.dueOf(v, n)
		switch {
		case p.claims[n.name]: // it may still fail
			later = append(later, candidacy{now + p.policy.Retry, n})
		case !candidate:
		case due > now:
			later = append(later, candidacy{due, n})
		case !p.hasRoom(v, self, n):
			later = append(later, candidacy{now + p.policy.Retry, n})
		default:
			p.claims[n.name] = true
			later = append(later, candidacy{now + p.policy.Retry, n}) // if it fails
			effects = append(effects, Effect{EffectClaim, n.name, n.place, n.revision})
		}
	}
	for _, c := range later {
		p.push(c)
	}
	if len(p.queue) > 0 && len(p.claims) < p.policy.MaxClaims {
		p.wake(p.queue[0].due)
	}
	return effects
}

// read queues what has become unplaced.
func (p *Planner) read(now time.Duration, v *View) {
	if p.generation != v.generation || p.news < v.dropped {
		p.generation = v.generation
		p.queue = p.queue[:0]
		clear(p.queued)
		for _, n := range sortedNames(v.unplaced) {
			p.consider(now, v, n)
		}
	} else {
		for _, n := range v.news[p.news-v.dropped:] {
			p.consider(now, v, n)
		}
	}
	p.news = v.dropped + len(v.news)
}

func (p *Planner) consider(now time.Duration, v *View, n *name) {
	if !n.unplaced {
		return
	}
	due, candidate := p.dueOf(v, n)
	if p.claims[n.name] {
		due = max(due, now+p.policy.Retry)
	}
	if before, queued := p.queued[n]; candidate && (!queued || due < before) {
		p.push(candidacy{due, n})
	}
}

// dueOf is when this node claims a name: the k-th candidate k steps after it became unplaced.
func (p *Planner) dueOf(v *View, n *name) (due time.Duration, candidate bool) {
	rank := v.rank(n, p.life)
	if rank > 0 && p.held[n.name] {
		rank = 0
	}
	if target := v.target(n); rank >= 0 && target != nil && target.Life != p.life {
		rank += moveSteps
	}
	return n.since + time.Duration(rank)*p.policy.Step, rank >= 0 && !p.refused[n.name]
}

// moveSteps is how many more steps the other nodes wait for the node to which an operator moves a name.
const moveSteps = 3

// hasRoom counts the claims that the view does not have yet. A node beyond its bound takes a name
// only if no candidate has room.
func (p *Planner) hasRoom(v *View, self *life, n *name) bool {
	load := self.load + len(p.claims)
	if self.Capacity > 0 && load >= self.Capacity {
		return false
	}
	return self.full || load < v.bound(self) || p.held[n.name]
}

func (p *Planner) release(now time.Duration, v *View, self *life) (effects []Effect) {
	surplus := self.load - v.bound(self)
	for server, r := range p.releases {
		switch n := v.names[server]; {
		case n.owned() && n.place.Life == p.life && n.place.Epoch == r.epoch:
			surplus--
		case !r.surplus || !n.unplaced:
			delete(p.releases, server)
		}
	}
	if settled := v.nodesSince + p.policy.RebalanceAfter; surplus > 0 && now < settled {
		surplus = 0
		p.wake(settled)
	}
	for _, n := range p.leaving(v, self, surplus > 0) {
		if len(p.releases) >= p.policy.MaxReleases {
			break
		}
		if _, decided := p.releases[n.name]; decided {
			continue
		}
		handover := !self.Draining && n.fits(self) && !v.movesAway(n, self) && !p.refused[n.name]
		if handover {
			if surplus <= 0 || !v.wanted(n, self) {
				continue
			}
			surplus--
		}
		p.releases[n.name] = released{handover, n.place.Epoch}
		effects = append(effects, Effect{EffectRelease, n.name, n.place, n.revision})
	}
	return effects
}

// leaving are the names of a life that it may have to release: those that do not fit or move to
// another node, or all. Those that have been here longest come first, so that a name that an operator
// has moved here is not the first surplus.
func (p *Planner) leaving(v *View, l *life, all bool) (names []*name) {
	for _, n := range v.owned[l.Life] {
		if all || l.Draining || !n.fits(l) || v.movesAway(n, l) || p.refused[n.name] {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b *name) int { return cmp.Compare(a.revision, b.revision) })
	return names
}

// movesAway reports whether an operator wants a name on another node, which may take it.
func (v *View) movesAway(n *name, self *life) bool {
	target := v.target(n)
	return target != nil && target != self
}

// fits reports whether the node may run the name.
func (n *name) fits(l *life) bool { return n.spec != nil && n.spec.Allows(l.Node) }

// wanted reports whether another node with room takes the name.
func (v *View) wanted(n *name, self *life) bool {
	return slices.ContainsFunc(v.candidatesOf(n), func(l *life) bool { return l != self && !l.full })
}

func (p *Planner) wake(at time.Duration) { p.due = min(p.due, at) }

func (p *Planner) push(c candidacy) {
	p.queued[c.name] = c.due
	p.queue = append(p.queue, c)
	for i := len(p.queue) - 1; i > 0; {
		parent := (i - 1) / 2
		if !p.queue[i].before(p.queue[parent]) {
			break
		}
		p.queue[i], p.queue[parent] = p.queue[parent], p.queue[i]
		i = parent
	}
}

func (p *Planner) pop() (n *name, stale bool) {
	first, last := p.queue[0], len(p.queue)-1
	p.queue[0] = p.queue[last]
	p.queue = p.queue[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && p.queue[child+1].before(p.queue[child]) {
			child++
		}
		if !p.queue[child].before(p.queue[i]) {
			break
		}
		p.queue[i], p.queue[child] = p.queue[child], p.queue[i]
		i = child
	}
	if due, queued := p.queued[first.name]; queued && due != first.due {
		return first.name, true
	}
	delete(p.queued, first.name)
	return first.name, false
}

func (c candidacy) before(other candidacy) bool {
	return c.due < other.due || c.due == other.due && c.name.name < other.name.name
}
