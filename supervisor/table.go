package supervisor

// Guard names the condition under which a transition is taken.
type Guard string

const (
	// GuardAlways: the row has no condition.
	GuardAlways Guard = ""
	// GuardRestartRequested: Restart was called since the session was given up.
	GuardRestartRequested Guard = "restart asked"
	// GuardFirstStart: the server was never ready and is not supervised from the start.
	GuardFirstStart Guard = "first start failed, not supervised from the start"
	// GuardAuthRequired: trying again cannot help before somebody has authorized it.
	GuardAuthRequired Guard = "permanent cause: authorization"
	// GuardPermanent: trying again cannot help.
	GuardPermanent Guard = "permanent cause"
	// GuardBudgetLeft: another attempt is allowed.
	GuardBudgetLeft Guard = "budget left"
	// GuardStandbyReady: a standby is ready, and another attempt is allowed.
	GuardStandbyReady Guard = "standby ready, budget left"
	// GuardMayPark: the policy parks instead of evicting.
	GuardMayPark Guard = "budget spent, policy parks"
)

// Transition is one row of the lifecycle: in state From, on event On, if When
// holds, go to To and do Do, in this order.
type Transition struct {
	From State
	On   InputKind
	When Guard
	To   State
	Do   []EffectKind
}

// table is the lifecycle. For one state and event the first row whose guard
// holds is taken; an event without a row is ignored in that state.
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
	rows := make([]Transition, len(table))
	for i, t := range table {
		t.Do = append([]EffectKind(nil), t.Do...)
		rows[i] = t
	}
	return rows
}
