package lifecycle

import (
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// EffectKind names something that the caller of [Lifecycle.Step] or [Standby.Step]
// must do.
type EffectKind string

const (
	// EffectDial: start the session of Epoch. In the lifecycle, everything before it is
	// released.
	EffectDial EffectKind = "dial"
	// EffectTakeOver: the standby is the session of Epoch from now on; its catalog is
	// complete. The session before it is being released.
	EffectTakeOver EffectKind = "take over"
	// EffectDiscover: list what the session of Epoch offers.
	EffectDiscover EffectKind = "discover"
	// EffectPublish: make the catalog of Epoch visible. All effects of one step become
	// visible together, in one swap of the snapshot.
	EffectPublish EffectKind = "publish"
	// EffectWithdraw: remove the catalog of Epoch from the listing.
	EffectWithdraw EffectKind = "withdraw"
	// EffectEndSession: end the session of Epoch with Cause, fail its calls in flight,
	// and feed InputReleased when nothing of it is left.
	EffectEndSession EffectKind = "end session"
	// EffectArmRetry: start a timer of Delay that feeds InputTimer with Token.
	EffectArmRetry EffectKind = "arm retry timer"
	// EffectArmPark: start such a timer at the slow pace of a parked server.
	EffectArmPark EffectKind = "arm park timer"
	// EffectArmStable: start such a timer; when it fires, the session counts as stable.
	EffectArmStable EffectKind = "arm stability timer"
	// EffectArmStandby: start such a timer; when it fires, the next standby is dialled.
	EffectArmStandby EffectKind = "arm standby timer"
	// EffectCancelTimer: stop the armed timer, if any. If it fires anyway, its
	// input is stale.
	EffectCancelTimer EffectKind = "cancel timer"
	// EffectResetBudget: the retry budget is full again. The lifecycle has done that
	// itself; the effect is for reporting it.
	EffectResetBudget EffectKind = "reset budget"
	// EffectAnnounceGone: report that the server is out of service until further
	// notice, with Cause.
	EffectAnnounceGone EffectKind = "announce gone"
	// EffectAnnounceStandby: report that the standby of Epoch can take over, and begin
	// to probe it.
	EffectAnnounceStandby EffectKind = "announce standby"
	// EffectAnnounceLost: report that the standby of Epoch ended before it was needed,
	// with Cause.
	EffectAnnounceLost EffectKind = "announce standby lost"
)

// Effect is one output of [Lifecycle.Step] or [Standby.Step].
type Effect struct {
	Kind EffectKind
	// Epoch is the incarnation that the effect is about: for EffectDial and
	// EffectTakeOver the new one, for all others the one that is current when the effect is
	// made; the effects of a step are made in order.
	Epoch uint64
	// Token names the timer that an EffectArm… starts and EffectCancelTimer stops; 0 in
	// an EffectCancelTimer means that no timer is armed.
	Token uint64
	// Delay is set for the EffectArm… kinds. That of a retry is the delay of the policy, or
	// what the server asked for if that is longer.
	Delay time.Duration
	// Cause is set for EffectWithdraw, EffectEndSession, EffectAnnounceGone and
	// EffectAnnounceLost, and never nil there.
	Cause *supervisor.Cause
}
