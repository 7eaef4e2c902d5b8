package supervisor

import "slices"

// StandbyTransition is one row of the standby's table: in state From, on input
// On, if the guard When holds, go to To and carry out Do in this order.
type StandbyTransition struct {
	From StandbyState
	On   InputKind
	When Guard
	To   StandbyState
	Do   []EffectKind
}

// standbyTable is the state machine of the standby. For one state and input the
// first row whose guard holds is taken; an input without a row is ignored.
//
// The lifecycle announces itself by three inputs: serving (a fresh session is
// published), taken over (the standby is in service now) and withdrawn (no
// session is in service). The replaced session is announced by drained.
var standbyTable = []StandbyTransition{
	{StandbyIdle, InputServing, GuardAlways, StandbyWaiting, do(EffectArmStandby)},
	{StandbyIdle, InputDrained, GuardAlways, StandbyIdle, nil},

	{StandbyWaiting, InputTimer, GuardDraining, StandbyDraining, nil},
	{StandbyWaiting, InputTimer, GuardAlways, StandbyConnecting, do(EffectDial)},
	{StandbyWaiting, InputDrained, GuardAlways, StandbyWaiting, nil},
	{StandbyWaiting, InputWithdrawn, GuardAlways, StandbyIdle, do(EffectCancelTimer)},

	{StandbyDraining, InputDrained, GuardAlways, StandbyConnecting, do(EffectDial)},
	{StandbyDraining, InputWithdrawn, GuardAlways, StandbyIdle, nil},

	{StandbyConnecting, InputOpened, GuardAlways, StandbyDiscovering, do(EffectDiscover)},
	{StandbyConnecting, InputFailed, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyConnecting, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyConnecting, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyDiscovering, InputDiscovered, GuardAlways, StandbyReady, do(EffectAnnounceStandby)},
	{StandbyDiscovering, InputFailed, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyDiscovering, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyDiscovering, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyReady, InputTakenOver, GuardAlways, StandbyWaiting, do(EffectArmStandby)},
	{StandbyReady, InputDied, GuardAlways, StandbyClosing, do(EffectEndSession, EffectAnnounceLost)},
	{StandbyReady, InputWithdrawn, GuardAlways, StandbyStopping, do(EffectEndSession)},

	{StandbyClosing, InputReleased, GuardStandbyRetry, StandbyWaiting, do(EffectArmStandby)},
	{StandbyClosing, InputReleased, GuardAlways, StandbyGivenUp, nil},
	{StandbyClosing, InputWithdrawn, GuardAlways, StandbyStopping, nil},

	{StandbyStopping, InputReleased, GuardAlways, StandbyIdle, nil},

	{StandbyGivenUp, InputWithdrawn, GuardAlways, StandbyIdle, nil},
}

// StandbyTransitions returns a copy of the standby's table as data, in the order
// in which rows are tried.
func StandbyTransitions() []StandbyTransition {
	rows := slices.Clone(standbyTable)
	for i := range rows {
		rows[i].Do = slices.Clone(rows[i].Do)
	}
	return rows
}
