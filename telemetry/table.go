package telemetry

import "go.opentelemetry.io/otel/attribute"

// kind is the kind of instrument of a metric.
type kind string

const (
	histogram     kind = "histogram"
	counter       kind = "counter"
	upDownCounter kind = "up-down counter"
	gauge         kind = "gauge"
)

// metricDef is one metric. The instruments and docs/metrics.md are made from it.
type metricDef struct {
	name, unit  string
	kind        kind
	description string
	// attributes are all attributes that the metric can have.
	attributes []attribute.Key
	// series bounds the number of series, for the page: S is the number of servers.
	series string
	// observed: the value is read from the client at each collection. Otherwise it is
	// recorded when it happens.
	observed bool
	// buckets are the bounds of a histogram, in its unit.
	buckets []float64
}

// Names of metrics.
const (
	nameClientOperation = "mcp.client.operation.duration"
	nameServerOperation = "mcp.server.operation.duration"
	nameSession         = "mcp.client.session.duration"
	nameState           = "mcpvisor.server.state"
	nameRestarts        = "mcpvisor.server.restarts"
	nameEnds            = "mcpvisor.server.ends"
	nameEpoch           = "mcpvisor.server.epoch"
	nameAttempt         = "mcpvisor.server.attempt"
	nameReadyTime       = "mcpvisor.server.ready_time"
	nameBackoff         = "mcpvisor.server.backoff.remaining"
	nameStart           = "mcpvisor.server.start.duration"
	nameOutage          = "mcpvisor.server.outage.duration"
	nameDown            = "mcpvisor.server.down.duration"
	nameMemory          = "mcpvisor.server.memory.usage"
	nameCPU             = "mcpvisor.server.cpu.time"
	nameInFlight        = "mcpvisor.call.in_flight"
	nameQueued          = "mcpvisor.call.queued"
	nameRefused         = "mcpvisor.call.refused"
	nameUnknown         = "mcpvisor.call.unknown"
	nameTasks           = "mcpvisor.task.open"
	nameTaskAge         = "mcpvisor.task.age"
	nameTaskRecovered   = "mcpvisor.task.recovered"
	nameTaskLost        = "mcpvisor.task.lost"
	nameDiscarded       = "mcpvisor.discarded"
	nameCatalogSize     = "mcpvisor.catalog.size"
	nameCatalogCost     = "mcpvisor.catalog.tokens"
	nameCatalogChanges  = "mcpvisor.catalog.changes"
	nameStandby         = "mcpvisor.standby.ready"
	nameStale           = "mcpvisor.stale_messages"
	nameMissed          = "mcpvisor.watch.missed"
	nameManager         = "mcpvisor.manager.restarts"
	nameSessions        = "mcpvisor.gateway.sessions"
	nameStreams         = "mcpvisor.gateway.streams"
	nameGatewayInFlight = "mcpvisor.gateway.in_flight"
	nameRequests        = "mcpvisor.gateway.requests"
	nameGatewayRefused  = "mcpvisor.gateway.refused"
)

// seconds are the buckets that the conventions give for MCP.
var seconds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// perServer is a shorthand for the attributes of a metric of each server.
func perServer(further ...attribute.Key) []attribute.Key {
	return append([]attribute.Key{keyServer}, further...)
}

// table has all metrics, in the order of docs/metrics.md.
var table = []metricDef{
	{name: nameClientOperation, kind: histogram, unit: "s", buckets: seconds,
		attributes: perServer(keyMethod, keyTool, keyPrompt, keyProtocol, keyErrorType, keyTransport), series: "1,900",
		description: "Duration of a request to a server, from when it was sent or queued until its answer. Requests that were refused before anything was sent are in mcpvisor.call.refused only."},
	{name: nameServerOperation, kind: histogram, unit: "s", buckets: seconds,
		attributes: perServer(keyMethod, keyProtocol, keyErrorType, keyTransport), series: "with the above",
		description: "Duration of a request of a server to this client: sampling, elicitation, roots."},
	{name: nameSession, kind: histogram, unit: "s", buckets: seconds, attributes: perServer(keyProtocol, keyErrorType), series: "17·S",
		description: "How long a session was ready. error.type is the kind of the cause; absent if the host ended the session."},
	{name: nameState, kind: gauge, unit: "{server}", attributes: perServer(keyState), series: "14·S", observed: true,
		description: "1 for the state that the server is in, 0 for the other states."},
	{name: nameRestarts, kind: counter, unit: "{restart}", attributes: perServer(), series: "S", observed: true,
		description: "Incarnations after the first one."},
	{name: nameEnds, kind: counter, unit: "{incarnation}", attributes: perServer(keyCause), series: "16·S",
		description: "Incarnations that ended, by the kind of the cause; those of standbys are included."},
	{name: nameEpoch, kind: gauge, unit: "{incarnation}", attributes: perServer(), series: "S", observed: true,
		description: "Number of the current incarnation, from 1."},
	{name: nameAttempt, kind: gauge, unit: "{attempt}", attributes: perServer(), series: "S", observed: true,
		description: "Attempts of the retry policy that are spent; 0 once a session has been stable."},
	{name: nameReadyTime, kind: counter, unit: "s", attributes: perServer(), series: "S", observed: true,
		description: "How long the server was ready, all its sessions together. Its rate is the availability of one that never rests."},
	{name: nameBackoff, kind: gauge, unit: "s", attributes: perServer(), series: "S", observed: true,
		description: "Time until the next attempt; 0 if none is scheduled."},
	{name: nameStart, kind: histogram, unit: "s", buckets: seconds, attributes: perServer(keyErrorType), series: "17·S",
		description: "Duration of a start, from its beginning until the server was ready, or had failed. error.type is the kind of the cause of a failed start."},
	{name: nameOutage, kind: histogram, unit: "s", buckets: seconds, attributes: perServer(), series: "S",
		description: "How long a server that had been ready was not, recorded when it is ready again."},
	{name: nameDown, kind: gauge, unit: "s", attributes: perServer(), series: "S", observed: true,
		description: "How long the server has not been ready; 0 while it is, while it is asleep, resting, or wakes, and while an operator has stopped it. Attempts that fail do not change it."},
	{name: nameMemory, kind: gauge, unit: "By", attributes: perServer(), series: "S", observed: true,
		description: "Resident memory of the processes of the server, those of its standby included. Pages that they share count for each. Linux only, and only for servers that are processes."},
	{name: nameCPU, kind: counter, unit: "s", attributes: perServer(), series: "S", observed: true,
		description: "Processor time of these processes."},
	{name: nameInFlight, kind: upDownCounter, unit: "{call}", attributes: perServer(), series: "S", observed: true,
		description: "Calls that the server works on."},
	{name: nameQueued, kind: upDownCounter, unit: "{call}", attributes: perServer(), series: "S", observed: true,
		description: "Calls that wait behind Limits.MaxInFlight."},
	{name: nameRefused, kind: counter, unit: "{call}", attributes: perServer(keyErrorType), series: "17·S + 1", observed: true,
		description: "Calls that failed before anything was sent. Without a server's name: calls that named no registered server."},
	{name: nameUnknown, kind: counter, unit: "{call}", attributes: perServer(), series: "S", observed: true,
		description: "Calls that failed after they were sent, and that the server may have executed."},
	{name: nameTasks, kind: upDownCounter, unit: "{task}", attributes: perServer(), series: "S", observed: true,
		description: "Calls that the server executes as tasks and that have not ended."},
	{name: nameTaskAge, kind: gauge, unit: "s", attributes: perServer(), series: "S", observed: true,
		description: "How long ago the oldest of these calls was made; 0 without one."},
	{name: nameTaskRecovered, kind: counter, unit: "{task}", attributes: perServer(), series: "S", observed: true,
		description: "Tasks that a later incarnation of the server, or a later host, has found again."},
	{name: nameTaskLost, kind: counter, unit: "{task}", attributes: perServer(), series: "S", observed: true,
		description: "Tasks that did not survive the end of their server: calls of unknown outcome."},
	{name: nameDiscarded, kind: counter, unit: "{message}", attributes: perServer(keyDiscarded), series: "4·S", observed: true,
		description: "What servers sent and the client could not use: malformed lines, oversize messages, unmatched (late, repeated, invented) answers, dropped notifications."},
	{name: nameCatalogSize, kind: gauge, unit: "{entry}", attributes: perServer(keyList), series: "4·S", observed: true,
		description: "Entries that a server offers, by list."},
	{name: nameCatalogCost, kind: gauge, unit: "{token}", attributes: perServer(), series: "S", observed: true,
		description: "Estimate of the tokens that all tools of the server cost a language model (bytes divided by 4)."},
	{name: nameCatalogChanges, kind: counter, unit: "{entry}", attributes: perServer(keyChange), series: "3·S",
		description: "Entries of the lists of a server that were added, removed or changed. Changes between one incarnation and the next count, too."},
	{name: nameStandby, kind: gauge, unit: "{standby}", attributes: perServer(), series: "S", observed: true,
		description: "1 if a standby is ready to take over, 0 otherwise."},
	{name: nameStale, kind: counter, unit: "{message}", attributes: perServer(), series: "S + 1", observed: true,
		description: "Messages inside the client that came too late to count. Without a server's name: about registrations that had ended."},
	{name: nameMissed, kind: counter, unit: "{event}", series: "1", observed: true,
		description: "Events that slow watchers of the host have lost."},
	{name: nameManager, kind: counter, unit: "{restart}", series: "1", observed: true,
		description: "How often the manager of the client was replaced after a panic. Anything but 0 is a defect of this library."},
	{name: nameSessions, kind: gauge, unit: "{session}", series: "1", observed: true,
		description: "Clients of the gateway that were seen within 15 minutes, or have something open."},
	{name: nameStreams, kind: gauge, unit: "{stream}", series: "1", observed: true,
		description: "Open streams of clients of the gateway."},
	{name: nameGatewayInFlight, kind: gauge, unit: "{request}", series: "1", observed: true,
		description: "Requests of clients of the gateway that are in flight."},
	{name: nameRequests, kind: counter, unit: "{request}", attributes: []attribute.Key{keyRequestEnd}, series: "4", observed: true,
		description: "Requests of clients of the gateway that have ended: answered, failed because of a server, with a JSON-RPC error, or canceled."},
	{name: nameGatewayRefused, kind: counter, unit: "{request}", attributes: []attribute.Key{keyRefusal}, series: "5", observed: true,
		description: "HTTP requests that the gateway has refused: because of the host, the token, the session, a limit, or because they are malformed."},
}
