package supervisor

// Guard names the condition under which a transition is taken.
type Guard string

const (
	// Always: the row has no condition.
	Always Guard = ""
	// RestartAsked: Restart was called since the session was given up.
	RestartAsked Guard = "restart asked"
	// FirstStart: the server was never ready and is not supervised from the start.
	FirstStart Guard = "first start failed, not supervised from the start"
	// WantsAuth: trying again cannot help before somebody has authorized it.
	WantsAuth Guard = "permanent cause: authorization"
	// Permanent: trying again cannot help.
	Permanent Guard = "permanent cause"
	// BudgetLeft: another attempt is allowed.
	BudgetLeft Guard = "budget left"
	// SpareReady: a standby is ready, and another attempt is allowed.
	SpareReady Guard = "standby ready, budget left"
	// MayPark: the policy parks instead of evicting.
	MayPark Guard = "budget spent, policy parks"
)

// Transition is one row of the lifecycle: in state From, on event On, if When
// holds, go to To and do Do, in this order.
type Transition struct {
	From State
	On   EventKind
	When Guard
	To   State
	Do   []EffectKind
}

// table is the lifecycle. For one state and event the first row whose guard
// holds is taken; an event without a row is ignored in that state.
var table = []Transition{
	{New, EvRegister, Always, Connecting, do(DoDial)},
	{New, EvStop, Always, Stopped, do(DoGone)},

	{Connecting, EvOpened, Always, Discovering, do(DoDiscover)},
	{Connecting, EvFailed, Always, Closing, do(DoReap)},
	{Connecting, EvDied, Always, Closing, do(DoReap)},
	{Connecting, EvRestart, Always, Closing, do(DoReap)},
	{Connecting, EvStop, Always, Stopping, do(DoReap)},

	{Discovering, EvDiscovered, Always, Ready, do(DoPublish, DoArmStable)},
	{Discovering, EvFailed, Always, Closing, do(DoReap)},
	{Discovering, EvDied, Always, Closing, do(DoReap)},
	{Discovering, EvRestart, Always, Closing, do(DoReap)},
	{Discovering, EvStop, Always, Stopping, do(DoReap)},

	{Ready, EvTimer, Always, Ready, do(DoResetBudget)},
	{Ready, EvDied, SpareReady, Ready, do(DoCancelTimer, DoWithdraw, DoReap, DoTakeOver, DoPublish, DoArmStable)},
	{Ready, EvDied, Always, Closing, do(DoCancelTimer, DoWithdraw, DoReap)},
	{Ready, EvRestart, Always, Closing, do(DoCancelTimer, DoWithdraw, DoReap)},
	{Ready, EvStop, Always, Stopping, do(DoCancelTimer, DoWithdraw, DoReap)},

	{Closing, EvReleased, RestartAsked, Connecting, do(DoResetBudget, DoDial)},
	{Closing, EvReleased, FirstStart, Stopped, do(DoGone)},
	{Closing, EvReleased, WantsAuth, Unauthorized, do(DoGone)},
	{Closing, EvReleased, Permanent, Evicted, do(DoGone)},
	{Closing, EvReleased, BudgetLeft, Backoff, do(DoArmRetry)},
	{Closing, EvReleased, MayPark, Parked, do(DoGone, DoArmPark)},
	{Closing, EvReleased, Always, Evicted, do(DoGone)},
	{Closing, EvRestart, Always, Closing, nil},
	{Closing, EvStop, Always, Stopping, nil},

	{Backoff, EvTimer, Always, Connecting, do(DoDial)},
	{Backoff, EvRestart, Always, Connecting, do(DoCancelTimer, DoResetBudget, DoDial)},
	{Backoff, EvStop, Always, Stopped, do(DoCancelTimer, DoGone)},

	{Parked, EvTimer, Always, Connecting, do(DoDial)},
	{Parked, EvRestart, Always, Connecting, do(DoCancelTimer, DoResetBudget, DoDial)},
	{Parked, EvStop, Always, Stopped, do(DoCancelTimer, DoGone)},

	{Unauthorized, EvRestart, Always, Connecting, do(DoResetBudget, DoDial)},
	{Unauthorized, EvStop, Always, Stopped, do(DoGone)},

	{Evicted, EvRestart, Always, Connecting, do(DoResetBudget, DoDial)},
	{Evicted, EvStop, Always, Stopped, do(DoGone)},

	{Stopping, EvReleased, Always, Stopped, do(DoGone)},
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
