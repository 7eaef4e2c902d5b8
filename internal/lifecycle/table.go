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
	// GuardFinished: the server is transient, the process exited with 0, and no call was in flight.
	GuardFinished Guard = "transient, exit 0, no call in flight"
	// GuardHalted: the operator has stopped the server, and it is not fenced.
	GuardHalted Guard = "halted"
	// GuardGivenUp: the group has given the server up.
	GuardGivenUp Guard = "given up by its group"
	// GuardRested: the server exited after its work, and is not wanted since.
	GuardRested Guard = "rested"
	// GuardUnwanted: nothing wants the server.
	GuardUnwanted Guard = "unwanted"
	// GuardHeld: the group holds the server.
	GuardHeld Guard = "held"
	// GuardRestartHeld: the user asked for a restart, and the group holds the server.
	GuardRestartHeld Guard = "restart requested, held"
	// GuardPlannedUnwanted: the session was ended as planned, and nothing wants the server.
	GuardPlannedUnwanted Guard = "planned end, unwanted"
	// GuardPlannedHeld: the session was ended as planned, and the group holds the server.
	GuardPlannedHeld Guard = "planned end, held"
	// GuardPlanned: the session was ended as planned, and since then the reason is gone.
	GuardPlanned Guard = "planned end"
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
// taken; an input without a row is ignored in that state. Before the rows are tried, an input sets
// the flags that the guards read ([Lifecycle.setFlags]), in every state.
var table = []Transition{
	{StateNew, InputRegister, GuardHalted, supervisor.StateStopped, do(EffectAnnounceGone)},
	{StateNew, InputRegister, GuardUnwanted, supervisor.StateAsleep, do(EffectAnnounceGone)},
	{StateNew, InputRegister, GuardHeld, supervisor.StateWaiting, nil},
	{StateNew, InputRegister, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{StateNew, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateConnecting, InputOpened, GuardAlways, supervisor.StateDiscovering, do(EffectDiscover)},
	{supervisor.StateConnecting, InputFailed, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputDied, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputFence, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputHalt, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputUnwanted, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputHold, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputGiveUp, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateConnecting, InputStop, GuardAlways, supervisor.StateStopping, do(EffectEndSession)},

	{supervisor.StateDiscovering, InputDiscovered, GuardAlways, supervisor.StateReady, do(EffectPublish, EffectArmStable)},
	{supervisor.StateDiscovering, InputFailed, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputDied, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputFence, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputHalt, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputUnwanted, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputHold, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputGiveUp, GuardAlways, supervisor.StateClosing, do(EffectEndSession)},
	{supervisor.StateDiscovering, InputStop, GuardAlways, supervisor.StateStopping, do(EffectEndSession)},

	{supervisor.StateReady, InputTimer, GuardAlways, supervisor.StateReady, do(EffectResetBudget)},
	{supervisor.StateReady, InputDied, GuardFinished, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputDied, GuardStandbyReady, supervisor.StateReady, do(EffectCancelTimer, EffectWithdraw, EffectEndSession, EffectTakeOver, EffectPublish, EffectArmStable)},
	{supervisor.StateReady, InputDied, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputRestart, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputFence, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputHalt, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputUnwanted, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputHold, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputGiveUp, GuardAlways, supervisor.StateClosing, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},
	{supervisor.StateReady, InputStop, GuardAlways, supervisor.StateStopping, do(EffectCancelTimer, EffectWithdraw, EffectEndSession)},

	{supervisor.StateClosing, InputReleased, GuardHalted, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardGivenUp, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardRestartHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateClosing, InputReleased, GuardRestartRequested, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateClosing, InputReleased, GuardRested, supervisor.StateResting, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardPlannedUnwanted, supervisor.StateAsleep, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardPlannedHeld, supervisor.StateWaiting, nil},
	{supervisor.StateClosing, InputReleased, GuardPlanned, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateClosing, InputReleased, GuardFirstStart, supervisor.StateUnregistered, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardAuthRequired, supervisor.StateUnauthorized, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardPermanent, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputReleased, GuardHost, supervisor.StateParked, do(EffectAnnounceGone, EffectArmPark)},
	{supervisor.StateClosing, InputReleased, GuardBudgetLeft, supervisor.StateBackoff, do(EffectArmRetry)},
	{supervisor.StateClosing, InputReleased, GuardMayPark, supervisor.StateParked, do(EffectAnnounceGone, EffectArmPark)},
	{supervisor.StateClosing, InputReleased, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateClosing, InputRestart, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputFence, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputHalt, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputGiveUp, GuardAlways, supervisor.StateClosing, nil},
	{supervisor.StateClosing, InputStop, GuardAlways, supervisor.StateStopping, nil},

	{supervisor.StateBackoff, InputTimer, GuardUnwanted, supervisor.StateAsleep, do(EffectAnnounceGone)},
	{supervisor.StateBackoff, InputTimer, GuardHeld, supervisor.StateWaiting, nil},
	{supervisor.StateBackoff, InputTimer, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateBackoff, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectCancelTimer, EffectResetBudget)},
	{supervisor.StateBackoff, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateBackoff, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectCancelTimer, EffectResetBudget)},
	{supervisor.StateBackoff, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateBackoff, InputRenew, GuardUnwanted, supervisor.StateAsleep, do(EffectCancelTimer, EffectResetBudget, EffectAnnounceGone)},
	{supervisor.StateBackoff, InputRenew, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateBackoff, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateBackoff, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateBackoff, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateBackoff, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectCancelTimer, EffectAnnounceGone)},

	{supervisor.StateParked, InputTimer, GuardUnwanted, supervisor.StateAsleep, do(EffectAnnounceGone)},
	{supervisor.StateParked, InputTimer, GuardHeld, supervisor.StateWaiting, nil},
	{supervisor.StateParked, InputTimer, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateParked, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectCancelTimer, EffectResetBudget)},
	{supervisor.StateParked, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateParked, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectCancelTimer, EffectResetBudget)},
	{supervisor.StateParked, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateParked, InputRenew, GuardUnwanted, supervisor.StateAsleep, do(EffectCancelTimer, EffectResetBudget, EffectAnnounceGone)},
	{supervisor.StateParked, InputRenew, GuardAlways, supervisor.StateConnecting, do(EffectCancelTimer, EffectResetBudget, EffectDial)},
	{supervisor.StateParked, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateParked, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateParked, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectCancelTimer, EffectAnnounceGone)},
	{supervisor.StateParked, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectCancelTimer, EffectAnnounceGone)},

	{supervisor.StateUnauthorized, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateUnauthorized, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateUnauthorized, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateUnauthorized, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateUnauthorized, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateUnauthorized, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateUnauthorized, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateUnauthorized, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateEvicted, InputRestart, GuardFenced, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateEvicted, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateEvicted, InputStart, GuardFenced, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateEvicted, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateEvicted, InputRenew, GuardFenced, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputRenew, GuardUnwanted, supervisor.StateAsleep, do(EffectResetBudget, EffectAnnounceGone)},
	{supervisor.StateEvicted, InputRenew, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateEvicted, InputFence, GuardAlways, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputHalt, GuardFenced, supervisor.StateEvicted, nil},
	{supervisor.StateEvicted, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateEvicted, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateStopped, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateStopped, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateStopped, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateStopped, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateAsleep, InputWanted, GuardHeld, supervisor.StateWaiting, nil},
	{supervisor.StateAsleep, InputWanted, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateAsleep, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateAsleep, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateAsleep, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateAsleep, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateAsleep, InputRenew, GuardAlways, supervisor.StateAsleep, do(EffectResetBudget)},
	{supervisor.StateAsleep, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateAsleep, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateAsleep, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateAsleep, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateResting, InputWanted, GuardHeld, supervisor.StateWaiting, nil},
	{supervisor.StateResting, InputWanted, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateResting, InputRestart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateResting, InputRestart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateResting, InputStart, GuardHeld, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateResting, InputStart, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateResting, InputRenew, GuardAlways, supervisor.StateResting, do(EffectResetBudget)},
	{supervisor.StateResting, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateResting, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateResting, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateResting, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateWaiting, InputClear, GuardAlways, supervisor.StateConnecting, do(EffectDial)},
	{supervisor.StateWaiting, InputRenew, GuardAlways, supervisor.StateConnecting, do(EffectResetBudget, EffectDial)},
	{supervisor.StateWaiting, InputRestart, GuardAlways, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateWaiting, InputStart, GuardAlways, supervisor.StateWaiting, do(EffectResetBudget)},
	{supervisor.StateWaiting, InputUnwanted, GuardAlways, supervisor.StateAsleep, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputHalt, GuardAlways, supervisor.StateStopped, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputFence, GuardFirstStart, supervisor.StateUnregistered, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputFence, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputGiveUp, GuardFirstStart, supervisor.StateUnregistered, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputGiveUp, GuardAlways, supervisor.StateEvicted, do(EffectAnnounceGone)},
	{supervisor.StateWaiting, InputStop, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},

	{supervisor.StateStopping, InputReleased, GuardAlways, supervisor.StateUnregistered, do(EffectAnnounceGone)},
}

func do(kinds ...EffectKind) []EffectKind { return kinds }
