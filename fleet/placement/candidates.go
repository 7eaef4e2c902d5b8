package placement

import (
	"math"
	"slices"
)

// mostCandidates are how many candidates of a name are known. The others are not asked: as long as
// a node of these lives, it claims the name, and when its lease ends, another takes its position.
const mostCandidates = 16

// candidatesOf returns the nodes that may run a name, best first: those with room in the order of
// their scores, then those whose load has reached the bound but not their capacity. Before them all
// is the node on which an operator wants the name.
//
// The score is that of weighted rendezvous hashing: each node has a score of its own for each
// name, so that a node that comes or goes changes the first candidate of its own names only.
func (v *View) candidatesOf(n *name) []*life {
	if n.ranked == v.generation {
		return n.candidates
	}
	type scored struct {
		*life
		score float64
	}
	var best [mostCandidates]scored
	found := 0
	for _, l := range v.takers() {
		if l.spent || !n.spec.Allows(l.Node) {
			continue
		}
		c := scored{l, score(n.hash, l.hash, l.weight())}
		if l.full {
			c.score += fullPenalty
		}
		i := found
		for i > 0 && c.score < best[i-1].score {
			i--
		}
		if i == mostCandidates {
			continue
		}
		found = min(found+1, mostCandidates)
		copy(best[i+1:found], best[i:found-1])
		best[i] = c
	}
	n.candidates = slices.Grow(n.candidates[:0], found+1)
	target := v.target(n)
	if target != nil {
		n.candidates = append(n.candidates, target)
	}
	for _, c := range best[:found] {
		if c.life != target {
			n.candidates = append(n.candidates, c.life)
		}
	}
	n.ranked = v.generation
	return n.candidates
}

// target is the node on which an operator wants a name, if that node may take it: it is there, does not
// drain, has the labels, and has not reached its capacity. Its bound does not matter.
func (v *View) target(n *name) *life {
	if len(v.moves) == 0 {
		return nil
	}
	l := v.newest[v.moves[n.name]]
	if l == nil || l.Draining || !n.fits(l) || l.spent && n.place.Life != l.Life {
		return nil
	}
	return l
}

// fullPenalty is more than any score: u is at least 2^-54, and a weight 0.001.
const fullPenalty = 1e6

// rank returns the position of a life among the candidates of a name, -1 if it has none.
func (v *View) rank(n *name, lifeID string) int {
	return slices.IndexFunc(v.candidatesOf(n), func(l *life) bool { return l.Life == lifeID })
}

// loadFactor times the mean load is the bound of the load of a node.
const loadFactor = 1.25

// bound is the load at which a node is full: 1.25 times its share, rounded up, or its capacity.
func (v *View) bound(l *life) int {
	bound := l.Capacity
	if v.weight > 0 {
		share := int(math.Ceil(loadFactor * float64(v.specs) * l.weight() / v.weight))
		if bound == 0 || share < bound {
			bound = share
		}
	}
	return bound
}

// score is the smaller the better. With u uniform between 0 and 1, the smallest of -ln(u)/weight
// belongs to each node with the probability of its share of the weights.
func score(name, node uint64, weight float64) float64 {
	u := (float64(mix(name^node)>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / weight
}

// hashOf is FNV-1a. Alone it spreads similar names badly; score mixes it.
func hashOf(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64: every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
