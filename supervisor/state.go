package supervisor

// State is where one registered server stands. The zero value is [New].
type State string

const (
	// StateNew: a lifecycle before its first event.
	StateNew State = ""
	// StateConnecting: a process is being spawned or a remote server connected, and
	// the protocol version is being negotiated.
	StateConnecting State = "connecting"
	// StateDiscovering: the session is open and its tools, resources, resource
	// templates and prompts are being listed. Nothing is published yet.
	StateDiscovering State = "discovering"
	// StateReady: the catalog is published and calls are accepted.
	StateReady State = "ready"
	// StateClosing: the session ended or was given up, and its process group or
	// connections are being reaped. Nothing new is dialled before that is done.
	StateClosing State = "closing"
	// StateBackoff: waiting for the retry timer.
	StateBackoff State = "backoff"
	// StateParked: the retry budget is spent; the server is tried again at the slow
	// pace of [Policy.ParkEvery].
	StateParked State = "parked"
	// StateUnauthorized: the server wants credentials that only a person or a new
	// configuration can supply. Only a restart dials it again; authorizing it
	// brings one.
	StateUnauthorized State = "unauthorized"
	// StateEvicted: given up. Only an explicit restart dials it again.
	StateEvicted State = "evicted"
	// StateStopping: the registration is being removed and its session reaped.
	StateStopping State = "stopping"
	// StateStopped: the registration is gone. No event leads out of it.
	StateStopped State = "stopped"
)

// States lists every state that a registered server can be in, in the order
// in which a life usually passes through them.
func States() []State {
	return []State{StateConnecting, StateDiscovering, StateReady, StateClosing, StateBackoff, StateParked, StateUnauthorized, StateEvicted, StateStopping, StateStopped}
}

// Live reports whether the state has a session behind it that must be reaped
// before the next one is dialled.
func (s State) Live() bool {
	switch s {
	case StateConnecting, StateDiscovering, StateReady, StateClosing, StateStopping:
		return true
	}
	return false
}

// Glyph is the one-column mark by which tables show the state.
func (s State) Glyph() string {
	switch s {
	case StateReady:
		return "●"
	case StateConnecting, StateDiscovering:
		return "◐"
	case StateClosing, StateStopping:
		return "◌"
	case StateBackoff:
		return "↻"
	case StateParked:
		return "◷"
	case StateUnauthorized:
		return "◇"
	case StateEvicted:
		return "✗"
	}
	return "○"
}
