package mcpvisor

// EventKind says what an [Event] reports.
type EventKind string

const (
	// EventRegistered: a server was registered. Its first start begins.
	EventRegistered EventKind = "registered"
	// EventConnecting: an incarnation is being started. Epoch is its number.
	EventConnecting EventKind = "connecting"
	// EventReady: all lists were read, the server takes calls. Tools, Resources,
	// Templates, Prompts, PID and Protocol are set; Downtime is how long the server was
	// not ready, 0 the first time.
	EventReady EventKind = "ready"
	// EventDown: the session of a ready server ended; its tools are no longer listed.
	// Cause is set; FailedCalls is how many calls in flight failed with it.
	EventDown EventKind = "down"
	// EventStartFailed: an incarnation ended before it was ready. Cause is set.
	EventStartFailed EventKind = "start_failed"
	// EventRetry: the next attempt is scheduled. Attempt, MaxAttempts, Delay and RetryAt
	// are set.
	EventRetry EventKind = "retry"
	// EventStable: the session has been ready for the policy's StableAfter; the policy
	// counts attempts from 0 again.
	EventStable EventKind = "stable"
	// EventStandby: a standby is ready to take over. Epoch is the standby's; PID and
	// Protocol are set.
	EventStandby EventKind = "standby"
	// EventStandbyLost: a standby ended before it was needed. Epoch is the standby's,
	// Cause is set. The server in service is not affected.
	EventStandbyLost EventKind = "standby_lost"
	// EventChanged: the lists of a ready server were read again and have changed.
	// Change says how; Tools, Resources, Templates and Prompts are the new counts.
	EventChanged EventKind = "changed"
	// EventResourceUpdated: the content of a subscribed resource has changed, or may
	// have: after a gap in the stream of updates each subscribed resource is reported.
	// URI is set; it may be that of a part of the resource. A restart is also a gap, but is
	// not reported so; after EventReady read subscribed resources again.
	EventResourceUpdated EventKind = "resource_updated"
	// EventLog: the server sent a log message. Log is set. Of more than 200 a second,
	// some are dropped and counted in Discarded.Dropped.
	EventLog EventKind = "log"
	// EventParked: the attempts of the policy are spent; the server is tried again
	// slowly. Cause, Delay and RetryAt are set.
	EventParked EventKind = "parked"
	// EventAuthRequired: the server waits for an OAuth authorization. Cause is set;
	// errors.As finds an [AuthRequired] in it if the user can authorize the client.
	EventAuthRequired EventKind = "auth_required"
	// EventEvicted: the server was given up. Cause, Attempt and MaxAttempts are set.
	EventEvicted EventKind = "evicted"
	// EventUnregistered: the registration was removed and everything that belonged to it
	// has ended.
	EventUnregistered EventKind = "unregistered"
	// EventMissed: this watcher did not keep up; Missed events were dropped. Every
	// watcher gets it, whatever kinds it asked for.
	EventMissed EventKind = "missed"
)
