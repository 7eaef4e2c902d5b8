package supervisor

import "time"

// InputKind names what happened to a server.
type InputKind string

const (
	// InputRegister begins a life: dial the first epoch.
	InputRegister InputKind = "register"
	// InputOpened: the session of Epoch is connected and negotiated.
	InputOpened InputKind = "opened"
	// InputDiscovered: the catalog of Epoch is complete.
	InputDiscovered InputKind = "discovered"
	// InputFailed: opening or discovering Epoch failed, with Cause.
	InputFailed InputKind = "failed"
	// InputDied: the session of Epoch ended by itself, with Cause.
	InputDied InputKind = "died"
	// InputReleased: everything that Epoch held is reaped. It answers DoReap; one
	// that comes before means nothing and is ignored.
	InputReleased InputKind = "released"
	// InputTimer: the timer with Token fired.
	InputTimer InputKind = "timer"
	// InputRestart: somebody asked for a fresh start with a fresh budget.
	InputRestart InputKind = "restart"
	// InputStop: the registration ends.
	InputStop InputKind = "stop"
)

// Input is one input of [Lifecycle.Step].
type Input struct {
	Kind InputKind
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
func (ev Input) because() *Cause {
	if ev.Cause != nil {
		return ev.Cause
	}
	switch ev.Kind {
	case InputFailed:
		return &Cause{Kind: CauseHandshake, Message: "the start failed without a stated cause"}
	case InputDied:
		return &Cause{Kind: CauseClosed, Message: "the session ended without a stated cause"}
	case InputStop:
		return &Cause{Kind: CauseRequested, Message: "asked to stop"}
	case InputRestart:
		return &Cause{Kind: CauseRestart, Message: "asked to restart"}
	}
	return nil
}

// EffectKind names something that the caller of [Lifecycle.Step] must do.
type EffectKind string

const (
	// EffectDial: start the session of Epoch. The previous one is released.
	EffectDial EffectKind = "dial"
	// EffectTakeOver: the standby is the session of Epoch from now on; its catalog is
	// complete. The one before it is being reaped.
	EffectTakeOver EffectKind = "take over"
	// EffectDiscover: list what the session of Epoch offers.
	EffectDiscover EffectKind = "discover"
	// EffectPublish: make the catalog of Epoch visible, in one swap.
	EffectPublish EffectKind = "publish"
	// EffectWithdraw: take the catalog of Epoch out of sight, in one swap.
	EffectWithdraw EffectKind = "withdraw"
	// EffectEndSession: end the session of Epoch with Cause, fail what is in flight on it,
	// and report EvReleased when nothing is left.
	EffectEndSession EffectKind = "reap"
	// EffectArmRetry: start a timer of Delay that reports EvTimer with Token.
	EffectArmRetry EffectKind = "arm retry timer"
	// EffectArmPark: the same at the slow pace of a parked server.
	EffectArmPark EffectKind = "arm park timer"
	// EffectArmStable: the same; when it fires, the session has proven itself.
	EffectArmStable EffectKind = "arm stability timer"
	// EffectCancelTimer: stop the armed timer, if any. A late firing is stale anyway.
	EffectCancelTimer EffectKind = "cancel timer"
	// EffectResetBudget: the budget is given back. The lifecycle has done so itself;
	// the effect is there to be told.
	EffectResetBudget EffectKind = "reset budget"
	// EffectAnnounceGone: the server is out of service until further notice, with Cause.
	EffectAnnounceGone EffectKind = "announce gone"
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
