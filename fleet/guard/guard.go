package guard

import (
	"context"
	"errors"
	"time"
)

// ErrUnsupported: there is no guard on this system.
var ErrUnsupported = errors.New("guard: there is no guard on this system; it needs Linux with pidfd_open, since 5.3")

// Config configures a guard.
type Config struct {
	// Ticket is passed to the function of Main when the node is dead and its servers are gone:
	// whatever that needs to give the lease back. At most 64 KiB. It reaches the guard through a
	// pipe, and neither its arguments nor its environment.
	Ticket []byte
	// Deadline is when the lease ends, by the clock of fleet/internal/boottime. SetDeadline moves
	// it. Required.
	Deadline time.Duration
	// OnLost is called once if the guard has died and could not be replaced within a second: the
	// node must end its exclusive servers. Required.
	OnLost func(err error)
}

const (
	maxTicket = 64 << 10
	// tick is how often the guard looks at the clock.
	tick = 50 * time.Millisecond
	// idleScan is how often it looks for processes that appear after the deadline.
	idleScan = 100 * time.Millisecond
	// answerTimeout is how long a guard may take for an answer before it counts as hanging, and how
	// long its replacement may take.
	answerTimeout = time.Second
	// startTimeout is how long the first guard may take to start, on a machine that is busy. Nothing depends on it yet.
	startTimeout = 10 * time.Second
	// releaseTimeout bounds the attempts to give the lease back. It ends by itself afterwards.
	releaseTimeout = 30 * time.Second
	releasePause   = 200 * time.Millisecond
)

// message is one line of JSON from the node to its guard. The guard answers with the number.
type message struct {
	Number   uint64        `json:"n"`
	Token    string        `json:"token,omitempty"` // in the first one, with Ticket
	Ticket   []byte        `json:"ticket,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"`
	Hold     []int         `json:"hold,omitempty"`
	Forget   []int         `json:"forget,omitempty"`
	Done     bool          `json:"done,omitempty"`
}

// Release gives a lease back. It is called by the guard, with the ticket of its node.
type Release func(ctx context.Context, ticket []byte) error
