package supervisor

// State is the state of one registered server. A server that is not registered has none:
// the zero value, "".
type State string

const (
	// StateConnecting: a process is being spawned or a remote server connected, and
	// the protocol version is being negotiated.
	StateConnecting State = "connecting"
	// StateDiscovering: the session is open and its tools, resources, resource
	// templates and prompts are being listed. Nothing is published yet.
	StateDiscovering State = "discovering"
	// StateReady: the catalog is published and calls are accepted.
	StateReady State = "ready"
	// StateClosing: the session has ended, and its process group or connections are
	// being released. The next dial waits until that is done.
	StateClosing State = "closing"
	// StateBackoff: waiting for the retry timer.
	StateBackoff State = "backoff"
	// StateParked: the retry budget is spent, and the server is tried again every
	// [Policy.ParkEvery]; or the host is at a limit (Cause.Host), and it is tried again soon.
	StateParked State = "parked"
	// StateUnauthorized: the server requires credentials that only the user or a new
	// configuration can supply. Only a restart dials it again; a completed
	// authorization restarts it.
	StateUnauthorized State = "unauthorized"
	// StateEvicted: the server is given up. Only an explicit restart dials it again.
	StateEvicted State = "evicted"
	// StateWaiting: the server would start, and does not yet: what it comes after is not ready, or its group is
	// restarting.
	StateWaiting State = "waiting"
	// StateAsleep: nothing wants the server, so it does not run. It starts when it is wanted.
	StateAsleep State = "asleep"
	// StateResting: the server exited with 0 after its work, and is transient. It starts when it is wanted.
	StateResting State = "resting"
	// StateStopped: the operator has stopped the server, and it keeps its registration. Only a start by the operator
	// runs it again.
	StateStopped State = "stopped"
	// StateStopping: the registration is being removed, and its session released.
	StateStopping State = "stopping"
	// StateUnregistered: the registration has ended. No input leads out of this state.
	StateUnregistered State = "unregistered"
)

// States lists every state that a registered server can be in, in the order
// in which a life usually passes through them.
func States() []State {
	return []State{StateConnecting, StateDiscovering, StateReady, StateClosing, StateBackoff, StateParked, StateUnauthorized, StateEvicted, StateWaiting, StateAsleep, StateResting, StateStopped, StateStopping, StateUnregistered}
}
