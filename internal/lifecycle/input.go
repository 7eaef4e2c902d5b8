package lifecycle

import "github.com/mcpvisor/mcpvisor/supervisor"

// InputKind names what happened to a server, or what a user asks of it.
type InputKind string

const (
	// InputRegister begins a registration: dial the first epoch.
	InputRegister InputKind = "register"
	// InputOpened: the session of Epoch is connected and negotiated.
	InputOpened InputKind = "opened"
	// InputDiscovered: the catalog of Epoch is complete.
	InputDiscovered InputKind = "discovered"
	// InputFailed: opening or discovering Epoch failed, with Cause.
	InputFailed InputKind = "failed"
	// InputDied: the session of Epoch ended by itself, with Cause.
	InputDied InputKind = "died"
	// InputReleased: everything that Epoch held is released. It answers
	// EffectEndSession; before that it is ignored.
	InputReleased InputKind = "released"
	// InputTimer: the timer with Token fired.
	InputTimer InputKind = "timer"
	// InputRestart: the user asked for a fresh start with a fresh budget.
	InputRestart InputKind = "restart"
	// InputFence: the server must not run again in this registration, with Cause.
	InputFence InputKind = "fence"
	// InputStop: the registration ends.
	InputStop InputKind = "stop"

	// InputHalt: the operator stops the server and keeps it: it is halted until InputStart.
	InputHalt InputKind = "halt"
	// InputStart: the operator starts the server. It is wanted and not halted, and its budget is fresh.
	InputStart InputKind = "start"
	// InputUnwanted: nothing wants the server: it was registered to start when wanted, or was idle.
	InputUnwanted InputKind = "unwanted"
	// InputWanted: a call or another server wants the server. It does not wake one that is halted.
	InputWanted InputKind = "wanted"
	// InputHold: the group holds the server: a running incarnation ends as planned, and no other one starts.
	InputHold InputKind = "hold"
	// InputClear: the group holds the server no longer. A server that is stopped, asleep or resting remains
	// held; one that leaves its group ([Input.Leave]) does not.
	InputClear InputKind = "clear"
	// InputRenew: like InputClear, and the budget is fresh: a server that was given up starts again.
	InputRenew InputKind = "renew"
	// InputGiveUp: the group gives the server up: a running incarnation ends as planned, and the server is
	// evicted.
	InputGiveUp InputKind = "give up"

	// InputServing: for the standby only. The lifecycle has published a session that
	// it had dialled.
	InputServing InputKind = "serving"
	// InputTakenOver: for the standby only. The lifecycle has put the standby in
	// service; Attempt is that of the lifecycle.
	InputTakenOver InputKind = "taken over"
	// InputDrained: for the standby only. The session that the last standby replaced is
	// released.
	InputDrained InputKind = "drained"
	// InputWithdrawn: for the standby only. The lifecycle has left the state ready.
	InputWithdrawn InputKind = "withdrawn"
)

// Input is one input of [Lifecycle.Step] or [Standby.Step].
type Input struct {
	Kind InputKind
	// Epoch is the incarnation that InputOpened, InputDiscovered, InputFailed,
	// InputDied and InputReleased are about. An input about any other epoch than the
	// current one is stale.
	Epoch uint64
	// Token is the timer that InputTimer is about. Any other than the armed one is
	// stale.
	Token uint64
	// Standby, in InputDied, is the epoch of a standby that can take over; 0 means
	// that there is no such standby.
	Standby uint64
	// Busy, in InputDied, says that calls were in flight which the server may have got. The end is no rest then.
	Busy bool
	// Leave, in InputClear, says that the server is in no group from now on.
	Leave bool
	// Attempt, in InputTakenOver, is [Lifecycle.Attempt]. It sets the delay before the
	// next standby.
	Attempt int
	// Cause explains InputFailed and InputDied and, optionally, InputStop, InputRestart, InputFence,
	// InputHalt, InputUnwanted, InputHold, InputGiveUp and InputWithdrawn. A missing one is filled in, so that every EffectEndSession and
	// EffectAnnounceGone has a cause.
	Cause *supervisor.Cause
}

// causeOrDefault is the cause of an input that ends something; nil for all others.
func (in Input) causeOrDefault() *supervisor.Cause {
	if in.Cause != nil {
		return in.Cause
	}
	switch in.Kind {
	case InputFailed:
		return &supervisor.Cause{Kind: supervisor.CauseHandshake, Message: "the start failed without a stated cause"}
	case InputDied:
		return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the session ended without a stated cause"}
	case InputStop:
		return &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "asked to stop"}
	case InputRestart:
		return &supervisor.Cause{Kind: supervisor.CauseRestart, Message: "asked to restart"}
	case InputFence:
		return &supervisor.Cause{Kind: supervisor.CauseFenced, Permanent: true, Message: "fenced"}
	case InputHalt:
		return &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "stopped by the operator; start it again"}
	case InputUnwanted:
		return &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "not wanted now; it starts when it is"}
	case InputHold:
		return &supervisor.Cause{Kind: supervisor.CauseRestart, Message: "held by its group"}
	case InputGiveUp:
		return &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "given up with its group"}
	case InputWithdrawn:
		return &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "the server is not in service"}
	default:
	}
	return nil
}
