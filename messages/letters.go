package messages

import (
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The letters between actors. Who sends which to whom, and when, stands in
// the package comment. A Reply channel has room for one answer and is sent to
// at most once; who waits on it also waits on its own context and on the end
// of the client.

// letter is embedded in all of them: what ends in the dead-letter office is
// not printed, for it may carry secrets.
type letter struct{}

// IgnoreDeadLetterLogging marks the letter for the actor library.
func (letter) IgnoreDeadLetterLogging() {}

// Register asks the manager to add a server. The reply is nil once the server
// is ready (or at once, if the spec is StartSupervised), or the reason why not.
type Register struct {
	letter
	Spec  mcpvisor.ServerSpec
	Reply chan<- error
	// Accepted gets the generation as soon as the name is taken.
	Accepted chan<- uint64
}

// Unregister asks the manager to remove a server. The reply comes when
// everything that it held is reaped. Gen 0 means whatever is registered.
type Unregister struct {
	letter
	Name  string
	Gen   uint64
	Reply chan<- error
}

// Restart asks the manager for a fresh start of a server. The reply comes when
// the request is under way; WaitReady tells when it is done.
type Restart struct {
	letter
	Name  string
	Reply chan<- error
}

// CloseAll asks the manager to stop every server and to take no more.
type CloseAll struct{ letter }

// Start asks the parent of all servers for a supervising actor.
type Start struct {
	letter
	Spec mcpvisor.ServerSpec
	Gen  uint64
}

// Stop ends a registration.
type Stop struct{ letter }

// RestartServer asks a supervising actor for a fresh start.
type RestartServer struct{ letter }

// Opened tells that the session of Epoch is connected and negotiated.
type Opened struct {
	letter
	Epoch uint64
}

// Discover asks a port to list what its server offers.
type Discover struct{ letter }

// Discovered tells that the catalog of Epoch is complete.
type Discovered struct {
	letter
	Epoch   uint64
	Catalog *catalog.Catalog
}

// Failed tells that opening or discovering Epoch failed.
type Failed struct {
	letter
	Epoch uint64
	Cause *supervisor.Cause
}

// Died tells that the session of Epoch ended by itself.
type Died struct {
	letter
	Epoch uint64
	Cause *supervisor.Cause
}

// EndSession asks a port to end its session.
type EndSession struct {
	letter
	Cause *supervisor.Cause
}

// Released tells that nothing is left of Epoch.
type Released struct {
	letter
	Epoch uint64
}

// TimerDue tells that the timer with Token fired.
type TimerDue struct {
	letter
	Token uint64
}

// StartProbing tells a port that its server is ready: from now on it is probed.
type StartProbing struct{ letter }

// ProbeDue tells a port that its server has been silent for a while.
type ProbeDue struct{ letter }

// Probed tells a port how a probe ended.
type Probed struct {
	letter
	Err  error
	Took time.Duration
}

// ReconcileRequest asks every supervising actor for a fresh report.
type ReconcileRequest struct{ letter }

// Letter marks a type of another package as one: it is not printed either.
type Letter = letter
