// Package placement is not part of the stable API. It decides on which node of a fleet
// each server runs. A [Planner] takes the time and a [View] and returns what its node must do. It reads no
// clock and does no input or output; package fleet carries the effects out, or a simulation in its place.
//
// # No coordinator
//
// Every node plans for itself, by its own view, and views differ. So a plan is only a wish: a name
// changes hands by a transaction of the store, which holds only if the place has not changed, the
// former owner has released it or has lost its lease, and the claimer has a lease. Placement only
// decides who asks first; the transaction keeps two lives of a name apart.
//
// # Who claims
//
//   - The candidates of a name are the nodes with its labels, in the order of weighted rendezvous
//     hashing. Those that have reached 1.25 times their share (the bound) come last, and those
//     that have reached their capacity or are draining do not come at all.
//   - The first candidate claims at once, the k-th after k seconds. So a name waits for no node that
//     is slow, and two rarely claim at the same time.
//   - A node on which an operator wants the name (a move) is its first candidate, whatever its bound;
//     the others leave it three seconds more.
//   - A claim counts against the bound of its node before the view has it. At most
//     Policy.MaxClaims are unanswered.
//
// # Who releases
//
// A name stays where it is: a node that joins moves nothing. A node releases a name that has lost
// its specification or no longer fits its labels, a name that an operator wants on
// another node that may take it, all names if it drains, and, when all names are
// placed and nothing has changed for Policy.RebalanceAfter, those beyond its bound, if another
// node has room. The node ends the server, then commits the release; then the candidates claim.
// At most Policy.MaxReleases are on the way.
package placement
