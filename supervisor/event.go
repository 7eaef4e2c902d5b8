package supervisor

import "time"

// EventKind names what happened to a server.
type EventKind string

const (
	// EvRegister begins a life: dial the first epoch.
	EvRegister EventKind = "register"
	// EvOpened: the session of Epoch is connected and negotiated.
	EvOpened EventKind = "opened"
	// EvDiscovered: the catalog of Epoch is complete.
	EvDiscovered EventKind = "discovered"
	// EvFailed: opening or discovering Epoch failed, with Cause.
	EvFailed EventKind = "failed"
	// EvDied: the session of Epoch ended by itself, with Cause.
	EvDied EventKind = "died"
	// EvReleased: everything that Epoch held is reaped. It answers DoReap; one
	// that comes before means nothing and is ignored.
	EvReleased EventKind = "released"
	// EvTimer: the timer with Token fired.
	EvTimer EventKind = "timer"
	// EvRestart: somebody asked for a fresh start with a fresh budget.
	EvRestart EventKind = "restart"
	// EvStop: the registration ends.
	EvStop EventKind = "stop"
)

// Event is one input of [Lifecycle.Step].
type Event struct {
	Kind EventKind
	// Epoch is the incarnation that EvOpened, EvDiscovered, EvFailed, EvDied
	// and EvReleased speak of. Any other than the current one is stale.
	Epoch uint64
	// Token is the timer that EvTimer speaks of. Any other than the armed one
	// is stale.
	Token uint64
	// Spare, in EvDied, is the epoch of a standby that is ready to take over; 0
	// if there is none.
	Spare uint64
	// Cause explains EvFailed, EvDied and, optionally, EvStop and EvRestart. A
	// missing one is filled in, so that every DoReap and DoGone has a cause.
	Cause *Cause
}

// because is the cause of an event that ends something; nil for the others.
func (ev Event) because() *Cause {
	if ev.Cause != nil {
		return ev.Cause
	}
	switch ev.Kind {
	case EvFailed:
		return &Cause{Kind: CauseHandshake, Message: "the start failed without a stated cause"}
	case EvDied:
		return &Cause{Kind: CauseClosed, Message: "the session ended without a stated cause"}
	case EvStop:
		return &Cause{Kind: CauseRequested, Message: "asked to stop"}
	case EvRestart:
		return &Cause{Kind: CauseRestart, Message: "asked to restart"}
	}
	return nil
}

// EffectKind names something that the caller of [Lifecycle.Step] must do.
type EffectKind string

const (
	// DoDial: start the session of Epoch. The previous one is released.
	DoDial EffectKind = "dial"
	// DoTakeOver: the standby is the session of Epoch from now on; its catalog is
	// complete. The one before it is being reaped.
	DoTakeOver EffectKind = "take over"
	// DoDiscover: list what the session of Epoch offers.
	DoDiscover EffectKind = "discover"
	// DoPublish: make the catalog of Epoch visible, in one swap.
	DoPublish EffectKind = "publish"
	// DoWithdraw: take the catalog of Epoch out of sight, in one swap.
	DoWithdraw EffectKind = "withdraw"
	// DoReap: end the session of Epoch with Cause, fail what is in flight on it,
	// and report EvReleased when nothing is left.
	DoReap EffectKind = "reap"
	// DoArmRetry: start a timer of Delay that reports EvTimer with Token.
	DoArmRetry EffectKind = "arm retry timer"
	// DoArmPark: the same at the slow pace of a parked server.
	DoArmPark EffectKind = "arm park timer"
	// DoArmStable: the same; when it fires, the session has proven itself.
	DoArmStable EffectKind = "arm stability timer"
	// DoCancelTimer: stop the armed timer, if any. A late firing is stale anyway.
	DoCancelTimer EffectKind = "cancel timer"
	// DoResetBudget: the budget is given back. The lifecycle has done so itself;
	// the effect is there to be told.
	DoResetBudget EffectKind = "reset budget"
	// DoGone: the server is out of service until further notice, with Cause.
	DoGone EffectKind = "announce gone"
)

// Effect is one output of [Lifecycle.Step].
type Effect struct {
	Kind EffectKind
	// Epoch is the incarnation that the effect is about: for DoDial and DoTakeOver
	// the new one, for all others the one that was current when they were decided.
	Epoch uint64
	// Token names the timer that the DoArm effects start and DoCancelTimer
	// stops; 0 in a DoCancelTimer means that none is running.
	Token uint64
	// Delay is set for the DoArm effects.
	Delay time.Duration
	// Cause is set, never nil, for DoWithdraw, DoReap and DoGone.
	Cause *Cause
}
