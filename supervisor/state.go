package supervisor

// State is where one registered server stands. The zero value is [New].
type State string

const (
	// New: a lifecycle before its first event.
	New State = ""
	// Connecting: a process is being spawned or a remote server connected, and
	// the protocol version is being negotiated.
	Connecting State = "connecting"
	// Discovering: the session is open and its tools, resources, resource
	// templates and prompts are being listed. Nothing is published yet.
	Discovering State = "discovering"
	// Ready: the catalog is published and calls are accepted.
	Ready State = "ready"
	// Closing: the session ended or was given up, and its process group or
	// connections are being reaped. Nothing new is dialled before that is done.
	Closing State = "closing"
	// Backoff: waiting for the retry timer.
	Backoff State = "backoff"
	// Parked: the retry budget is spent; the server is tried again at the slow
	// pace of [Policy.ParkEvery].
	Parked State = "parked"
	// Unauthorized: the server wants credentials that only a person or a new
	// configuration can supply. Only a restart dials it again; authorizing it
	// brings one.
	Unauthorized State = "unauthorized"
	// Evicted: given up. Only an explicit restart dials it again.
	Evicted State = "evicted"
	// Stopping: the registration is being removed and its session reaped.
	Stopping State = "stopping"
	// Stopped: the registration is gone. No event leads out of it.
	Stopped State = "stopped"
)

// States lists every state that a registered server can be in, in the order
// in which a life usually passes through them.
func States() []State {
	return []State{Connecting, Discovering, Ready, Closing, Backoff, Parked, Unauthorized, Evicted, Stopping, Stopped}
}

// Live reports whether the state has a session behind it that must be reaped
// before the next one is dialled.
func (s State) Live() bool {
	switch s {
	case Connecting, Discovering, Ready, Closing, Stopping:
		return true
	}
	return false
}

// Glyph is the one-column mark by which tables show the state.
func (s State) Glyph() string {
	switch s {
	case Ready:
		return "●"
	case Connecting, Discovering:
		return "◐"
	case Closing, Stopping:
		return "◌"
	case Backoff:
		return "↻"
	case Parked:
		return "◷"
	case Unauthorized:
		return "◇"
	case Evicted:
		return "✗"
	}
	return "○"
}
