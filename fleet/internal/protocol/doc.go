// Package protocol decides what one node of a fleet does with the store: it joins, renews its lease,
// claims and releases names, ends its exclusive servers at the deadline, and joins again. It is a
// state machine like that of package lifecycle: [Node.Step] takes the time and one [Input], and
// returns what the caller must do. It reads no clock, does no input or output and starts no
// goroutine, so that a simulation can run a fleet through years of faults.
//
// # Lives
//
// A life of a node is one lease, and is named after it; a number is never given twice. All that a
// node owns, it owns by its life: a record that names another life, even one of the same node, is
// that of another node.
//
//	apart → (granted) → registering → (key written) → member → (deadline, lease gone) → fencing → apart
//
// # The deadline
//
// A lease ends its TTL after the store has received the renewal, or later. The node does not know
// when that was, but it was after the renewal was sent. So the deadline is the time before the
// renewal was sent, plus the TTL, minus a margin, by a clock that counts suspend. The margin pays
// for clocks that run at different rates and for the time that it takes to end the servers: with
// a TTL of 8 s and a margin of 1 s, clocks may differ by 5 % and ending may take 0.2 s.
//
// At the deadline the life is over, whatever the store says later: exclusive servers are ended,
// and only when all of them have been reaped, the node gives the lease back and begins another
// life. Other servers keep running, and the next life claims them before others do.
//
// Node.Step does not run while the process is stopped. A guard, a process of its own, knows each
// deadline (EffectDeadline) and ends the servers then. A node whose guard has gone, and is not
// replaced within a second, ends its life itself (InputFence). If the node is stopped or killed
// before, the servers live on: this is outside of what is promised.
//
// # Claims
//
// A claim is one transaction: the place record is unchanged, the key of its former life is gone
// or the record is released, and the own key is present. It writes the own life and the next
// epoch. A server starts when the view says that the own life has the name, and never by the
// answer to a claim alone; so a claim whose answer was lost, or that the store carries out much
// later, needs no special case. An epoch that has ended here never starts again.
package protocol
