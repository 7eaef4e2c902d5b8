package supervisor

import "slices"

// Guard names the condition under which a row of a table is taken.
type Guard string

const (
	// GuardAlways: the row has no condition.
	GuardAlways Guard = ""
	// GuardRestartRequested: the user asked for a restart, and the session had to be
	// released first.
	GuardRestartRequested Guard = "restart requested"
	// GuardFirstStart: the server was never ready, and its first start is not
	// supervised.
	GuardFirstStart Guard = "first start failed, not supervised from the start"
	// GuardAuthRequired: a retry cannot help before the user has authorized the server.
	GuardAuthRequired Guard = "permanent cause: authorization"
	// GuardPermanent: a retry cannot help.
	GuardPermanent Guard = "permanent cause"
	// GuardBudgetLeft: the policy allows another attempt.
	GuardBudgetLeft Guard = "budget left"
	// GuardStandbyReady: a standby can take over, and the policy allows another attempt.
	GuardStandbyReady Guard = "standby ready, budget left"
	// GuardMayPark: the policy parks the server instead of evicting it.
	GuardMayPark Guard = "budget spent, policy parks"
	// GuardDraining: for the standby only. The session that the last standby replaced is
	// not released yet.
	GuardDraining Guard = "replaced session not released"
	// GuardStandbyRetry: for the standby only. The policy allows another start.
	GuardStandbyRetry Guard = "standby attempts left"
)

// Transition is one row of the lifecycle's table: in state From, on input On, if the
// guard When holds, go to To and carry out Do in this order.
type Transition struct {
	From State
	On   InputKind
	When Guard
	To   State
	Do   []EffectKind
}

// table is the lifecycle. For one state and input the first row whose guard holds is
// taken; an input without a row is ignored in that state.
var table = []Transition{
	{StateNew, InputRegister, GuardAlways, StateConnecting, do(EffectDial)},
	{StateNew, InputStop, GuardAlways, StateStopped, do(EffectAnnounceGone)},

	{StateConnecting, InputOpened, GuardAlways, StateDiscovering, do(EffectDiscover)},
	{StateConnecting, InputFailed, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateConnecting, InputDied, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateConnecting, InputRestart, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateConnecting, InputStop, GuardAlways, StateStopping, do(EffectEndSession)},

	{StateDiscovering, InputDiscovered, GuardAlways, StateReady, do(EffectPublish, EffectArmStable)},
	{StateDiscovering, InputFailed, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateDiscovering, InputDied, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateDiscovering, InputRestart, GuardAlways, StateClosing, do(EffectEndSession)},
	{StateDiscovering, InputStop, GuardAlways, StateStopping, do(EffectEndSession)},

	{StateReady, InputTimer, GuardAlways, StateReady, do(EffectResetBudget)},
	{StateReady, InputDied, GuardStandbyReady, StateReady, do(EffectCancelTimer, EffectWithdraw, EffectEndSession, EffectTakeOver, EffectPublish, EffectArmStable)},
	{StateReady, InputDied, GuardAlways, StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{StateReady, InputRestart, GuardAlways, StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{StateReady, InputStop, GuardAlways, StateStopping, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},

	{StateClosing, InputReleased, GuardRestartRequested, StateConnecting, do(EffectResetBudget, EffectDial)},
	{StateClosing, InputReleased, GuardFirstStart, StateStopped, do(EffectAnnounceGone)},
	{StateClosing, InputReleased, GuardAuthRequired, StateUnauthorized, do(EffectAnnounceGone)},
	{StateClosing, InputReleased, GuardPermanent, StateEvicted, do(EffectAnnounceGone)},
	{StateClosing, InputReleased, GuardBudgetLeft, StateBackoff, do(EffectArmRetry)},
	{StateClosing, InputReleased, GuardMayPark, StateParked, do(EffectAnnounceGone, EffectArmPark)},
	{StateClosing, InputReleased, GuardAlways, StateEvicted, do(EffectAnnounceGone)},
	{StateClosing, InputRestart, GuardAlways, StateClosing, nil},
	{StateClosing, InputStop, GuardAlways, StateStopping, nil},

	{StateBackoff, InputTimer, GuardAlways, StateConnecting, do(EffectDial)},
	{StateBackoff, InputRestart, GuardAlways, StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{StateBackoff, InputStop, GuardAlways, StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},

	{StateParked, InputTimer, GuardAlways, StateConnecting, do(EffectDial)},
	{StateParked, InputRestart, GuardAlways, StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{StateParked, InputStop, GuardAlways, StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},

	{StateUnauthorized, InputRestart, GuardAlways, StateConnecting, do(EffectResetBudget, EffectDial)},
	{StateUnauthorized, InputStop, GuardAlways, StateStopped, do(EffectAnnounceGone)},

	{StateEvicted, InputRestart, GuardAlways, StateConnecting, do(EffectResetBudget, EffectDial)},
	{StateEvicted, InputStop, GuardAlways, StateStopped, do(EffectAnnounceGone)},

	{StateStopping, InputReleased, GuardAlways, StateStopped, do(EffectAnnounceGone)},
}

func do(kinds ...EffectKind) []EffectKind { return kinds }

// Transitions returns a copy of the lifecycle as data, in the order in which
// rows are tried.
func Transitions() []Transition {
	rows := slices.Clone(table)
	for i := range rows {
		rows[i].Do = slices.Clone(rows[i].Do)
	}
	return rows
}
