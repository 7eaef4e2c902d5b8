package facade

import (
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// State is how a server stands; Cause is why its last session ended.
type (
	// State is a state of the lifecycle; see docs/lifecycle.md.
	State = supervisor.State
	// Cause explains the end of a session.
	Cause = supervisor.Cause
	// CauseKind says what ended a session, or kept it from beginning.
	CauseKind = supervisor.CauseKind
	// EventKind says what an [Event] reports.
	EventKind = messages.EventKind
	// SessionInfo describes an open session.
	SessionInfo = messages.SessionInfo
	// StrayOutput is text on the stdout of a server where a message should stand.
	StrayOutput = messages.StrayOutput
	// Incarnation is one ended life of a server.
	Incarnation = messages.Incarnation
	// Change is what a refresh changed.
	Change = messages.Change
	// Delta is how one list changed.
	Delta = messages.Delta
	// LogMessage is one line of a server's log.
	LogMessage = messages.LogMessage
	// Progress is what a server says about a call that is under way.
	Progress = messages.Progress
)

// Era is a generation of the protocol.
type Era = messages.Era

// The eras that ServerSpec.Era may fix; the zero value negotiates.
const (
	EraAuto   = messages.EraAuto
	EraLegacy = messages.EraLegacy
	EraModern = messages.EraModern
)

// The states of a server.
const (
	// Connecting: an incarnation is being started and negotiated with.
	Connecting = supervisor.StateConnecting
	// Discovering: its lists are being read.
	Discovering = supervisor.StateDiscovering
	// Ready: it takes calls.
	Ready = supervisor.StateReady
	// Closing: its session has ended and is being reaped.
	Closing = supervisor.StateClosing
	// Backoff: it waits for its next try.
	Backoff = supervisor.StateBackoff
	// Parked: its budget is spent; it is tried again slowly.
	Parked = supervisor.StateParked
	// Unauthorized: it wants credentials, and waits; see [Client.Authorize].
	Unauthorized = supervisor.StateUnauthorized
	// Evicted: it was given up; Restart brings it back, and Register replaces it.
	Evicted = supervisor.StateEvicted
	// Stopping: it is being unregistered.
	Stopping = supervisor.StateStopping
)

// The kinds of causes; see supervisor.CauseKind.
const (
	CauseSpawn     = supervisor.CauseSpawn
	CauseConfig    = supervisor.CauseConfig
	CauseHandshake = supervisor.CauseHandshake
	CauseVersion   = supervisor.CauseVersion
	CauseAuth      = supervisor.CauseAuth
	CauseExit      = supervisor.CauseExit
	CauseSignal    = supervisor.CauseSignal
	CauseClosed    = supervisor.CauseClosed
	CauseProtocol  = supervisor.CauseProtocol
	CauseTimeout   = supervisor.CauseTimeout
	CauseProbe     = supervisor.CauseProbe
	CausePanic     = supervisor.CausePanic
	CauseRequested = supervisor.CauseRequested
	CauseRestart   = supervisor.CauseRestart
)

// The kinds of events; see messages.EventKind for what each carries.
const (
	EventRegistered   = messages.EventRegistered
	EventConnecting   = messages.EventConnecting
	EventReady        = messages.EventReady
	EventDown         = messages.EventDown
	EventStartFailed  = messages.EventStartFailed
	EventRetry        = messages.EventRetry
	EventStable       = messages.EventStable
	EventStandby      = messages.EventStandby
	EventStandbyLost  = messages.EventStandbyLost
	EventParked       = messages.EventParked
	EventAuthRequired = messages.EventAuthRequired
	EventEvicted      = messages.EventEvicted
	EventUnregistered = messages.EventUnregistered
	EventMissed       = messages.EventMissed

	EventChanged         = messages.EventChanged
	EventResourceUpdated = messages.EventResourceUpdated
	EventLog             = messages.EventLog
)
