package messages

import (
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Message is implemented by everything that one actor sends another. The unexported
// method seals it: a type becomes a message only by embedding [Base].
type Message interface{ message() }

// Base is embedded in every message.
type Base struct{}

func (Base) message() {}

// IgnoreDeadLetterLogging keeps the actor library from printing a message that reaches
// no actor: specifications carry secrets.
func (Base) IgnoreDeadLetterLogging() {}

// Register asks the manager to add a server. The reply is nil once the server
// is ready (or at once, if the spec is StartSupervised), or the reason why not.
type Register struct {
	Base
	Spec  mcpvisor.ServerSpec
	Reply chan<- error
	// Replace ends a registered server of that name, whatever its state, once its calls in flight have
	// ended. The new one takes its place with what the host has subscribed to: when everything that it
	// held is released or, if they may overlap, as soon as the new one is ready. Of several such requests
	// the last one counts; the others fail.
	Replace bool
	// Accepted receives the generation once the snapshot shows the server: a caller that
	// gives up sees it until it is removed. It needs room for one.
	Accepted chan<- uint64
	// Known is what a lazy server offered when it last ran; nil: that is not known.
	Known *catalog.Catalog
}

// RegisterAll asks the manager for several Register at once, so that none of them starts before the order of all is
// known.
type RegisterAll struct {
	Base
	All []*Register
}

// Unregister asks the manager to remove a server. The reply comes when everything
// that it held is released. Gen 0 means the registration of that name, whichever it is.
type Unregister struct {
	Base
	Name  string
	Gen   uint64
	Drain bool // let the calls in flight end first, within Timeouts.Drain
	Reply chan<- error
}

// Order is what an operator, or something that wants a server, asks of it.
type Order string

const (
	// OrderRestart: a fresh start.
	OrderRestart Order = "restart"
	// OrderStop: end, and run again only after OrderStart.
	OrderStop Order = "stop"
	// OrderStart: run, with a fresh budget.
	OrderStart Order = "start"
	// OrderWake: run, if the server is asleep or resting.
	OrderWake Order = "wake"
)

// Operate asks the manager to give a server an order. The reply comes when the order is under way; that of
// OrderStop when everything that the server held is released.
type Operate struct {
	Base
	Name  string
	Order Order
	Cause *supervisor.Cause // of the end of the session; nil: a caller has asked
	Drain bool              // as in Unregister
	Reply chan<- error      // nil for OrderWake
}

// SetGroups asks the manager to make the groups of the client those of the message.
type SetGroups struct {
	Base
	Groups []mcpvisor.Group
	Reply  chan<- error
}

// UnregisterAll asks the manager for several Unregister at once: a server ends before those that it comes after.
type UnregisterAll struct {
	Base
	All []*Unregister
}

// Fence asks the manager to end a server at once and to start it no more. The reply comes
// when everything that it held is released.
type Fence struct {
	Base
	Name  string
	Cause *supervisor.Cause
	Reply chan<- error
}

// CloseAll asks the manager to stop every server and to accept no more.
type CloseAll struct{ Base }

// Start asks the parent of all servers for a supervising actor.
type Start struct {
	Base
	Spec *mcpvisor.ServerSpec // with defaults; shared and never changed
	Gen  uint64
	// Last is the catalog of the registration that this one replaces; nil if there was none.
	Last *catalog.Catalog
	// Known: Last is what this server offered when it last ran. If it is lazy, it need not start.
	Known bool
	// Beside: that registration serves until this one is ready, so the first start is not tried again.
	Beside bool
	// Held: the server is to be a member of a group, and starts when that lets it.
	Held bool
	// Halted: an operator has stopped the server, and only starts it again by OrderStart.
	Halted bool
}

// Stop ends a registration.
type Stop struct {
	Base
	Closing  bool // the client is; the server was not unregistered
	Replaced bool // another registration of the name follows
	// DrainUntil is when the calls in flight must have ended; zero: they end at once.
	DrainUntil time.Time
}

// FenceServer ends the sessions of a registration at once; none follows.
type FenceServer struct {
	Base
	Cause *supervisor.Cause
}

// OperateServer gives a supervising actor an order.
type OperateServer struct {
	Base
	Order      Order
	Cause      *supervisor.Cause // as in Operate
	DrainUntil time.Time         // as in Stop
}

// Rest lets a server sleep that nothing has used.
type Rest struct {
	Base
	Epoch uint64
}

// ReconcileRequest asks a supervising actor for a fresh report.
type ReconcileRequest struct{ Base }

// Opened: the session of Epoch is connected and negotiated.
type Opened struct {
	Base
	Epoch uint64
}

// Discover asks a port to list what its server offers.
type Discover struct{ Base }

// Discovered: the catalog of Epoch is complete.
type Discovered struct {
	Base
	Epoch   uint64
	Catalog *catalog.Catalog
}

// Failed: opening or discovering Epoch failed.
type Failed struct {
	Base
	Epoch uint64
	Cause *supervisor.Cause
}

// Died: the session of Epoch ended by itself.
type Died struct {
	Base
	Epoch uint64
	Cause *supervisor.Cause
}

// EndSession asks a port to end its session.
type EndSession struct {
	Base
	Cause *supervisor.Cause
	// Now: without the grace of Timeouts.Shutdown. It also cuts the grace of an end that has
	// begun.
	Now bool
}

// Released: nothing is left of Epoch.
type Released struct {
	Base
	Epoch uint64
}

// TimerDue: the timer with Token fired.
type TimerDue struct {
	Base
	Token uint64
}

// SessionReady tells a port that its session serves calls, or stands by for that: from now
// on it probes the session, refreshes the lists and reconciles the subscriptions.
type SessionReady struct{ Base }

// ProbeDue tells a port that its server may have been silent for Probe.Interval.
type ProbeDue struct{ Base }

// Probed is the outcome of a probe.
type Probed struct {
	Base
	Err  error
	Took time.Duration
}
