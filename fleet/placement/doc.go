// Package placement is not part of the stable API. It decides on which node of a fleet
// each server runs. A [Planner] takes the time and a [View] and returns what its node must do. It reads no
// clock and does no input or output; package fleet carries the effects out, or a simulation in its place.
//
// Every node plans for itself, by its own view, and views differ. So a plan is only a wish: a name
// changes hands by a transaction of the store, which holds only if the place has not changed, the
// former owner has released it or has lost its lease, and the claimer has a lease. Placement only
// decides who asks first; the transaction keeps two lives of a name apart.
//
// Who claims a name, and who releases one, is in docs/fleet.md, "Who runs a server":
// https://github.com/mcpvisor/mcpvisor/blob/main/docs/fleet.md#who-runs-a-server. A claim counts against
// the bound of its node before the view has it; at most Policy.MaxClaims are unanswered, and at most
// Policy.MaxReleases are on the way.
package placement
