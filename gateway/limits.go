package gateway

import (
	"errors"
	"fmt"
	"time"
)

// Limits bound what one peer, which has one session, may cost this process and the other
// peers. In each field 0, and a negative value, means the default.
type Limits struct {
	// MaxRequests is how many requests of the session are in flight at once, from their
	// beginning until their answers are read. Further ones wait, and can be canceled while
	// they do. Default 128.
	MaxRequests int
	// MaxWaiting is how many requests wait for one of MaxRequests. Beyond it the Write of
	// the connection waits for room with a request; cancellations and other notifications
	// pass. Default 1,024.
	MaxWaiting int
	// MaxRequestBytes bounds the params and ids of all these requests together, in bytes.
	// Beyond it Write waits, too. One request may exceed it. Default 16 MiB.
	MaxRequestBytes int
	// MaxUnreadBytes bounds the answers that the peer has not read, in bytes. Beyond it the
	// session ends: the peer does not read. One answer may exceed it. Default 64 MiB.
	MaxUnreadBytes int
	// MaxQueuedBytes is how many bytes of answers and questions may wait behind the message that is
	// being written, while the peer reads nothing. If more of them wait for StallTimeout, and the peer
	// has read nothing meanwhile, not even 64 KiB of the message, the session ends. A peer that reads
	// slowly keeps its session. Default 1 MiB.
	MaxQueuedBytes int
	// StallTimeout is how long the peer may read nothing while more than MaxQueuedBytes wait. Default 10 s.
	StallTimeout time.Duration
	// MaxSubscriptions is how many subscriptions to resources the session has at once. Further
	// ones are refused. A subscription counts until its server has been told that it ended.
	// Default 1,000.
	MaxSubscriptions int
	// MaxListens is how many requests subscriptions/listen the session has in flight at
	// once, beside MaxRequests. Further ones are refused. Default 16.
	MaxListens int
	// MaxHeld is how many calls of a client of 2026-07-28 are in flight at servers before it, while
	// the client answers what the server has asked. Of a Handler it is for a principal, as
	// such a client has no session. The question of a further call is refused. Default 64.
	MaxHeld int
	// MaxHeldBytes bounds what these calls hold: their params, the questions, and results that came
	// before the answers. Default 16 MiB.
	MaxHeldBytes int
}

// The defaults of [Limits].
const (
	DefaultMaxRequests      = 128
	DefaultMaxWaiting       = 1_024
	DefaultMaxRequestBytes  = 16 << 20
	DefaultMaxUnreadBytes   = 64 << 20
	DefaultMaxQueuedBytes   = 1 << 20
	DefaultStallTimeout     = 10 * time.Second
	DefaultMaxSubscriptions = 1_000
	DefaultMaxListens       = 16
	DefaultMaxHeld          = 64
	DefaultMaxHeldBytes     = 16 << 20
)

// ErrPeerDoesNotRead is the error of a session that was ended because its answers were not
// read. See [Limits].
var ErrPeerDoesNotRead = errors.New("the peer does not read its answers")

// WithLimits sets what one session may cost.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l.withDefaults() } }

func (l Limits) withDefaults() Limits {
	for _, field := range []struct {
		value     *int
		otherwise int
	}{
		{&l.MaxRequests, DefaultMaxRequests}, {&l.MaxWaiting, DefaultMaxWaiting}, {&l.MaxRequestBytes, DefaultMaxRequestBytes},
		{&l.MaxUnreadBytes, DefaultMaxUnreadBytes}, {&l.MaxQueuedBytes, DefaultMaxQueuedBytes}, {&l.MaxSubscriptions, DefaultMaxSubscriptions}, {&l.MaxListens, DefaultMaxListens},
		{&l.MaxHeld, DefaultMaxHeld}, {&l.MaxHeldBytes, DefaultMaxHeldBytes},
	} {
		if *field.value <= 0 {
			*field.value = field.otherwise
		}
	}
	setDefault(&l.StallTimeout, DefaultStallTimeout)
	return l
}

// unreadError ends a session whose peer has too much unread, even if it reads.
func (l Limits) unreadError() error {
	return fmt.Errorf("gateway: %w: more than %d bytes wait for it; read faster, or raise Limits.MaxUnreadBytes", ErrPeerDoesNotRead, l.MaxUnreadBytes)
}

// stallError ends a session whose peer reads nothing.
func (l Limits) stallError() error {
	return fmt.Errorf("gateway: %w: more than %d bytes wait for it, and it has read nothing for %v; read, or raise Limits.MaxQueuedBytes or StallTimeout", ErrPeerDoesNotRead, l.MaxQueuedBytes, l.StallTimeout)
}
