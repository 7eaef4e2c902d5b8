package actors

import (
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport"
)

// incarnation is one life of a server: its session and the accounts of the
// calls on it. Its death is the session's death; calls watch nothing else.
type incarnation struct {
	server  string
	gen     uint64
	epoch   uint64
	spec    *messages.ServerSpec
	session transport.Session
	started time.Time
	tally   *tally

	// account holds calls in flight in its low half and calls that failed with
	// the session in its high half, in one word so that their sum never tears.
	account atomic.Int64
}

// tally counts calls over a whole registration.
type tally struct{ total, failed, inFlight atomic.Int64 }

const oneLost = int64(1) << 32

// begin counts a call in, unless too many are under way.
func (i *incarnation) begin() bool {
	if i.account.Add(1)&(oneLost-1) > int64(i.spec.Limits.InFlight) {
		i.account.Add(-1)
		return false
	}
	i.tally.total.Add(1)
	i.tally.inFlight.Add(1)
	return true
}

// end counts a call out.
func (i *incarnation) end(failed, lost bool) {
	i.tally.inFlight.Add(-1)
	if failed {
		i.tally.failed.Add(1)
	}
	if lost {
		i.account.Add(oneLost - 1)
	} else {
		i.account.Add(-1)
	}
}

// casualties is how many calls failed, or are about to, with the session.
func (i *incarnation) casualties() int {
	n := i.account.Load()
	return int(n>>32 + n&(oneLost-1))
}
