package lifecycle

import "github.com/mcpvisor/mcpvisor/supervisor"

// StateNew is the state of a lifecycle before its first input.
const StateNew supervisor.State = ""

// Guard names the condition under which a row of a table is taken.
type Guard string

const (
	// GuardAlways: the row has no condition.
	GuardAlways Guard = ""
	// GuardRestartRequested: the user asked for a restart, and the session had to be
	// released first.
	GuardRestartRequested Guard = "restart requested"
	// GuardFenced: the server was fenced in this registration.
	GuardFenced Guard = "fenced"
	// GuardFirstStart: the server was never ready, and its first start is not
	// supervised.
	GuardFirstStart Guard = "first start failed, not supervised from the start"
	// GuardAuthRequired: a retry cannot help before the user has authorized the server.
	GuardAuthRequired Guard = "permanent cause: authorization"
	// GuardPermanent: a retry cannot help.
	GuardPermanent Guard = "permanent cause"
	// GuardHost: the host was at a limit, and the policy allows restarts.
	GuardHost Guard = "limit of the host, and restarts are allowed"
	// GuardBudgetLeft: the policy allows another attempt.
	GuardBudgetLeft Guard = "budget left"
	// GuardStandbyReady: a standby can take over, the cause is not permanent, and the policy
	// allows another attempt.
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
	From supervisor.State
	On   InputKind
	When Guard
	To   supervisor.State
	Do   []EffectKind
}

// table is the lifecycle. For one state and input the first row whose guard holds is
// taken; an input without a row is ignored in that state.
var table = []Transition{
	{StateNew, InputRegister, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{StateNew, InputStop, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},

	{supervisor.StateConnecting, InputOpened, GuardAlways, supervisor.StateDiscovering, do(EffectDiscover)},
	{supervisor.StateConnecting, InputFailed, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputDied, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputFence, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputStop, GuardAlways, supervisor.StateStopping, do(EffectEndSession)},

	{supervisor.StateDiscovering, InputDiscovered, GuardAlways, supervisor.StateReady, do(EffectPublish, EffectArmStable)},
	{supervisor.StateDiscovering, InputFailed, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputDied, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputFence, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputStop, GuardAlways, supervisor.StateStopping, do(EffectEndSession)},

	{supervisor.StateReady, InputTimer, GuardAlways, supervisor.StateReady, do(EffectResetBudget)},
	{supervisor.StateReady, InputDied, GuardStandbyReady, supervisor.StateReady, do(EffectCancelTimer, EffectWithdraw, EffectEndSession, EffectTakeOver, EffectPublish, EffectArmStable)},
	{supervisor.StateReady, InputDied, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputFence, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputStop, GuardAlways, supervisor.StateStopping, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},

	{supervisor.StateClosing, InputReleased, GuardRestartRequested, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateClosing, InputReleased, GuardFirstStart, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardAuthRequired, supervisor.StateUnauthorized, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardPermanent, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardHost, supervisor.StateParked, do(EffectAnnounceGone, EffectArmPark)},
	{supervisor.StateClosing, InputReleased, GuardBudgetLeft, supervisor.StateBackoff, do(EffectArmRetry)},
	{supervisor.StateClosing, InputReleased, GuardMayPark, supervisor.StateParked, do(EffectAnnounceGone, EffectArmPark)},
	{supervisor.StateClosing, InputReleased, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputRestart, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputFence, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputStop, GuardAlways, supervisor.StateStopping, nil},

	{supervisor.StateBackoff, InputTimer, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateBackoff, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateBackoff, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateBackoff, InputStop, GuardAlways, supervisor.StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},

	{supervisor.StateParked, InputTimer, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateParked, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateParked, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateParked, InputStop, GuardAlways, supervisor.StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},

	{supervisor.StateUnauthorized, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateUnauthorized, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateUnauthorized, InputStop, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},

	{supervisor.StateEvicted, InputRestart, GuardFenced, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateEvicted, InputFence, GuardAlways, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputStop, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},

	{supervisor.StateStopping, InputReleased, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
}

func do(kinds ...EffectKind) []EffectKind { return kinds }
