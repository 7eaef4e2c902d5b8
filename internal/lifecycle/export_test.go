package lifecycle

import "slices"

// Transitions returns a copy of the lifecycle as data, in the order in which
// rows are tried.
func Transitions() []Transition {
	rows := slices.Clone(table)
	for i := range rows {
		rows[i].Do = slices.Clone(rows[i].Do)
	}
	return rows
}

// StandbyStates lists every state of a standby, in the order in which a life
// usually passes through them.
func StandbyStates() []StandbyState {
	return []StandbyState{StandbyIdle, StandbyWaiting, StandbyDraining, StandbyConnecting, StandbyDiscovering,
		StandbyReady, StandbyClosing, StandbyStopping, StandbyGivenUp}
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
