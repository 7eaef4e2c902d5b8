// Package api is not part of the stable API. It has the shapes of the JSON that
// package web serves. A program that reads them from another process compares [Schema]: within
// one schema, fields are only added. Package web says which request has which answer. Durations are
// nanoseconds unless a name says otherwise.
package api

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Schema names the shape of the answers. Within one schema, fields are only added.
const Schema = "web/v1"

// Status is the answer of GET api/status: all servers at one moment.
type Status struct {
	// Schema is [Schema].
	Schema string `json:"schema"`
	// Instance differs between handlers: after a restart of the process, numbers of events
	// and calls begin again.
	Instance string `json:"instance"`
	// Title is the name of the page. Version is [facade.Version].
	Title   string `json:"title"`
	Version string `json:"version"`
	// Now is the time of the answer by the clock of the server.
	Now time.Time `json:"now"`
	// Controls is whether actions are allowed.
	Controls bool `json:"controls"`
	// Recorded is whether the program keeps records, which GET api/records searches.
	Recorded bool `json:"recorded"`
	// Attention lists what an operator should look at, the most important entry first.
	Attention []Attention `json:"attention"`
	// Servers are all servers, sorted by name; with ?server=NAME, which may be repeated,
	// those only.
	Servers []mcpvisor.ServerStatus `json:"servers"`
	// Groups are all groups, in the order in which they were set.
	Groups []mcpvisor.GroupStatus `json:"groups,omitempty"`
	// Stats are the facts of the client as a whole; Stats.Events is the number of the last
	// event.
	Stats monitor.ClientStats `json:"stats"`
	// Names are the names of all registered servers, sorted.
	Names []string `json:"names"`
}

// Since is since when a server has been ready, or has not been. The state of a server that is tried
// again and again changes with each attempt; this does not.
func Since(s *mcpvisor.ServerStatus) time.Time {
	if s.DownSince != nil {
		return *s.DownSince
	}
	return s.Since
}

// Attention is one thing that an operator should look at.
type Attention struct {
	// Server is the name of the server; empty if the thing concerns no server, or several.
	Server string `json:"server"`
	// Servers are the names of servers that have the same trouble; then Text begins with their
	// number. With AttentionGroup they are those of the group.
	Servers []string `json:"servers,omitempty"`
	// Group is the name of the group that has failed; empty for all kinds but AttentionGroup.
	Group string `json:"group,omitempty"`
	// Kind classifies it.
	Kind AttentionKind `json:"kind"`
	// Severity says how urgent it is.
	Severity Severity `json:"severity"`
	// Text says in one line what is the matter, without the name of the server.
	Text string `json:"text"`
	// More are less urgent things about the same server, a line each.
	More []string `json:"more,omitempty"`
	// Action says what to do about it.
	Action string `json:"action"`
	// Since is when it began; nil if that is not known.
	Since *time.Time `json:"since,omitempty"`
}

// Severity says how urgent an [Attention] is.
type Severity string

const (
	// SeverityError: the server does not come back by itself.
	SeverityError Severity = "error"
	// SeverityWarning: something fails now, or has failed and may have left an effect.
	SeverityWarning Severity = "warning"
	// SeverityNotice: worth knowing; calls work.
	SeverityNotice Severity = "notice"
)

// AttentionKind classifies an [Attention].
type AttentionKind string

const (
	// AttentionEvicted: the server was given up.
	AttentionEvicted AttentionKind = "evicted"
	// AttentionUnauthorized: the server waits for credentials.
	AttentionUnauthorized AttentionKind = "unauthorized"
	// AttentionConfiguration: a configuration file, or an entry of it, cannot be used, and what
	// runs is that of an earlier one. Hosts report it; see Program.
	AttentionConfiguration AttentionKind = "configuration"
	// AttentionFleet: this node has no lease in its fleet, or no node of the fleet runs the server.
	// Hosts report it; see Program.
	AttentionFleet AttentionKind = "fleet"
	// AttentionApproval: calls wait for a decision of a person.
	AttentionApproval AttentionKind = "approval"
	// AttentionRecords: calls and events cannot be recorded. Hosts report it; see Program.
	AttentionRecords AttentionKind = "records"
	// AttentionGroup: a group has failed, and is parked or was given up as one. Group names it.
	AttentionGroup AttentionKind = "group"
	// AttentionParked: the attempts are spent; the server is tried again slowly.
	AttentionParked AttentionKind = "parked"
	// AttentionWaiting: the server waits for one that an operator has stopped, or that is not registered.
	AttentionWaiting AttentionKind = "waiting"
	// AttentionBackoff: the server waits for its next attempt.
	AttentionBackoff AttentionKind = "backoff"
	// AttentionFlapping: the server has ended several times in a short time.
	AttentionFlapping AttentionKind = "flapping"
	// AttentionSlowStart: a start takes long.
	AttentionSlowStart AttentionKind = "slow_start"
	// AttentionUnknownOutcome: calls have failed that the server may have executed.
	AttentionUnknownOutcome AttentionKind = "unknown_outcome"
	// AttentionSlowCalls: calls have been in flight for long.
	AttentionSlowCalls AttentionKind = "slow_calls"
	// AttentionQueued: calls wait because too many are in flight.
	AttentionQueued AttentionKind = "queued"
	// AttentionLock: something that the server offers differs from the lock file, or is not in it.
	AttentionLock AttentionKind = "lock"
	// AttentionCatalog: some of what the server lists could not be used.
	AttentionCatalog AttentionKind = "catalog"
	// AttentionStandby: a server that should have a standby has had none for a while.
	AttentionStandby AttentionKind = "standby"
	// AttentionDiscarded: output or messages of the server could not be used.
	AttentionDiscarded AttentionKind = "discarded"
	// AttentionDeprecated: the session uses a deprecated transport or version.
	AttentionDeprecated AttentionKind = "deprecated"
	// AttentionRestarted: the server ended a short time ago, and is ready again.
	AttentionRestarted AttentionKind = "restarted"
)

// Server is the answer of GET api/servers/{name}.
type Server struct {
	Status mcpvisor.ServerStatus `json:"status"`
	// Stderr has the lines that the latest incarnation wrote to stderr.
	Stderr monitor.ServerStderr `json:"stderr"`
	// Tools are the statistics of its tools that were called.
	Tools []ToolStats `json:"tools"`
}

// Stderr is the answer of GET api/servers/{name}/stderr.
type Stderr struct {
	monitor.ServerStderr
	// Dropped counts the lines between ?after=N and the first of Lines.
	Dropped int64 `json:"dropped,omitempty"`
}

// Tools is the answer of GET api/servers/{name}/tools. A server that is not ready lists no
// tools.
type Tools struct {
	Server string `json:"server"`
	// Tokens estimates how many tokens all tools cost a language model.
	Tokens int    `json:"tokens"`
	Tools  []Tool `json:"tools"`
}

// Tool is one tool with its definition, as the server sent it.
type Tool struct {
	mcpvisor.Tool
	// Tokens estimates how many tokens the tool costs a language model; see
	// [mcpvisor.Tool.TokenEstimate].
	Tokens int `json:"tokens"`
}

// ToolStats are the statistics of one tool, as [monitor.ToolStats], with the quantiles of
// its durations in place of the histogram. All durations are nanoseconds.
type ToolStats struct {
	Server       string                       `json:"server"`
	Name         string                       `json:"name"`
	OriginalName string                       `json:"originalName"`
	Calls        int64                        `json:"calls"`
	ToolErrors   int64                        `json:"toolErrors"`
	Failed       map[mcpvisor.ErrorKind]int64 `json:"failed"` // not nil
	Unknown      int64                        `json:"unknown"`
	Refused      int64                        `json:"refused"`
	Mean         time.Duration                `json:"meanNs"`
	P50          time.Duration                `json:"p50Ns"`
	P95          time.Duration                `json:"p95Ns"`
	P99          time.Duration                `json:"p99Ns"`
	Max          time.Duration                `json:"maxNs"`
}

// ToolUse is the answer of GET api/tools: statistics of the tools of all servers, those
// that took the most time first; with ?limit=N the first N of them.
type ToolUse struct {
	Tools []ToolStats `json:"tools"`
	// Total counts the tools that were called.
	Total int `json:"total"`
}

// Search is the answer of GET api/search: the tools of all servers that have all words of ?q=WORDS
// in their names or at the beginning of their descriptions, at most 50. ?limit=N lists up to N, at
// most 10000; then the words may be left out. ?kind=KIND, which may be repeated, is tools (default),
// resources or prompts.
type Search struct {
	Tools     []FoundTool `json:"tools"`
	Resources []FoundTool `json:"resources,omitempty"`
	Prompts   []FoundTool `json:"prompts,omitempty"`
	// More counts the others.
	More int `json:"more,omitempty"`
}

// FoundTool is one tool, resource or prompt that a search has found.
type FoundTool struct {
	// Server, Name and OriginalName are as in mcpvisor.Tool and mcpvisor.Prompt. Of a resource,
	// Name is what its server calls it, and OriginalName its URI or its template. Description is
	// cut to one line.
	Server       string `json:"server"`
	Name         string `json:"name"`
	OriginalName string `json:"originalName"`
	Description  string `json:"description,omitempty"`
	// Tokens estimates how many tokens a tool costs a language model.
	Tokens int `json:"tokens,omitempty"`
}

// Calls is the answer of GET api/calls.
type Calls struct {
	// InFlight are the requests that have not ended.
	InFlight []monitor.CallInFlight `json:"inFlight"`
	// Approvals are the calls that wait for a decision, oldest first; nothing of them was sent.
	Approvals []Approval `json:"approvals,omitempty"`
	// Tasks are the calls that servers execute as tasks and that have not ended.
	Tasks []mcpvisor.OpenTask `json:"tasks,omitempty"`
	// Unfinished are calls with a key that an earlier process has made, oldest first, at most 20:
	// they were interrupted, or are tasks that no caller waits for. It is read every 5 s at most.
	Unfinished []mcpvisor.JournalEntry `json:"unfinished,omitempty"`
	// MoreUnfinished counts those after them.
	MoreUnfinished int `json:"moreUnfinished,omitempty"`
	// Recent are the calls that ended after ?after=SEQ, oldest first; without it all that
	// are kept, at most 500.
	Recent []monitor.CallRecord `json:"recent"`
	// Unknown are the last calls of unknown outcome, oldest first; see
	// facade.History.UnknownCalls.
	Unknown []monitor.CallRecord `json:"unknown"`
	// Missed counts calls after SEQ that are no longer kept.
	Missed uint64 `json:"missed,omitempty"`
}

// Clients is the answer of GET api/clients: the clients of the gateway, and what they may call.
type Clients struct {
	Instance string `json:"instance"` // as Status.Instance
	// Gateway is whether there is a gateway.
	Gateway bool `json:"gateway"`
	clients.Status
}

// Usage is the answer of GET api/usage: what servers use. Samples are taken while a reader asks,
// one for each 5 s at most, and kept for 5 minutes; a reader asks again every few seconds with
// ?after=SEQ, the Seq of the answer before.
type Usage struct {
	Instance string `json:"instance"` // as Status.Instance
	// Seq is the number of the last sample.
	Seq     uint64        `json:"seq"`
	Servers []ServerUsage `json:"servers"`
}

// ServerUsage says what one server uses. A value that is not known is left out: CPU and memory of
// servers that are no process, or that run where the system does not tell, and rates before the
// second sample. The processes of a server are those that the client started and what these have
// started. What runs in a container is not among them.
type ServerUsage struct {
	Server string `json:"server"`
	// CPU is how many processors were busy on average between the last two samples: 1 is all
	// the time of one.
	CPU *float64 `json:"cpu,omitempty"`
	// MemoryBytes is the resident memory of all processes. Pages that they share count for each.
	MemoryBytes *int64 `json:"memoryBytes,omitempty"`
	// Processes counts the processes.
	Processes int `json:"processes,omitempty"`
	// CallsPerMinute is the rate of calls over the samples of the last minute.
	CallsPerMinute *float64 `json:"callsPerMinute,omitempty"`
	// ErrorShare is how many of the calls of the kept samples failed, from 0 to 1; left out
	// if there were none. As in CallCounts, a result with isError is no failed call.
	ErrorShare *float64 `json:"errorShare,omitempty"`
	// Samples are those after ?after=SEQ, oldest first; without it all that are kept.
	Samples []UsageSample `json:"samples,omitempty"`
}

// UsageSample says what a server used between the sample before and this one.
type UsageSample struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// OverNs is the time since the sample before; 0 for the first one, which has no CPU, calls or
	// failures.
	OverNs      time.Duration `json:"overNs,omitempty"`
	CPU         *float64      `json:"cpu,omitempty"`
	MemoryBytes *int64        `json:"memoryBytes,omitempty"`
	// Calls counts the calls since then, Failed those of them that failed.
	Calls  int64 `json:"calls"`
	Failed int64 `json:"failed"`
}

// Event is an event with its description in one line.
type Event struct {
	mcpvisor.Event
	// Text is the result of [mcpvisor.Event.String], with the result of [Program.Change].
	Text string `json:"text"`
	// Severity is the result of [mcpvisor.Event.Severity].
	Severity mcpvisor.Severity `json:"severity"`
	// Group says what the event is about.
	Group EventGroup `json:"group"`
	// FromServer is the result of [mcpvisor.EventKind.FromServer].
	FromServer bool `json:"fromServer,omitempty"`
}

// EventSummaries is the answer of GET api/events/summaries: what has happened in short, in the order
// of the last events. Similar events of one server are one summary, so these go back much further
// than events; see facade.History.Summaries. ?after=SEQ, the Seq of the answer before, selects
// those that have changed since. ?kind=KIND and ?server=NAME, which may be repeated, select by the
// kind of the last event and by the server.
type EventSummaries struct {
	Instance string `json:"instance"` // as Status.Instance
	// Seq is the number of the last event.
	Seq       uint64         `json:"seq"`
	Summaries []EventSummary `json:"summaries"`
	// Dropped counts the summaries that made room for others since Started, when the client began.
	Dropped uint64    `json:"dropped,omitempty"`
	Started time.Time `json:"started"`
}

// EventSummary is a summary with its description in one line.
type EventSummary struct {
	monitor.EventSummary
	// Last is the last of the events.
	Last Event `json:"last"`
	// Text is the result of [monitor.EventSummary.String], with the result of [Program.Change].
	Text string `json:"text"`
}

// EventGroup says what an event is about, so that a reader can select.
type EventGroup string

const (
	// GroupConfiguration: a server was registered or unregistered.
	GroupConfiguration EventGroup = "configuration"
	// GroupLists: what a server offers has changed.
	GroupLists EventGroup = "lists"
	// GroupEnds: a session or a standby ended, or did not start, and what followed.
	GroupEnds EventGroup = "ends"
	// GroupGivenUp: a server or a group is no longer tried, or only slowly, or a server waits to be authorized.
	GroupGivenUp EventGroup = "given_up"
	// GroupTasks: a task was lost, or found again.
	GroupTasks EventGroup = "tasks"
	// GroupMessages: a server sent a log message, or a resource was updated.
	GroupMessages EventGroup = "messages"
)

// Events is the answer of GET api/events: the kept events after ?after=SEQ, oldest first,
// or the last ?last=N of them. ?kind=KIND and ?server=NAME, which may be repeated, select kinds and
// servers.
type Events struct {
	Events []Event `json:"events"`
	// Missed counts events after SEQ that are no longer kept.
	Missed uint64 `json:"missed"`
}

// Hello is the data of the first event ("hello") of an event stream.
type Hello struct {
	Schema   string `json:"schema"`
	Instance string `json:"instance"` // as Status.Instance
}

// Missed is the data of an event "missed" of an event stream: it counts the events that this
// reader lost because they are too old or because it reads too slowly.
type Missed struct {
	Missed uint64 `json:"missed"`
}

// CallRequest is the body of POST api/call.
type CallRequest struct {
	// Tool is the qualified name or the alias of a tool.
	Tool string `json:"tool"`
	// Arguments is a JSON object; empty means {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// TimeoutMs bounds the time without progress, in milliseconds; 0 means the default of
	// the client and of the server, as for facade.WithTimeout. Less than 0, and more than a
	// time.Duration holds, is refused.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// Check is whether the arguments are compared with the schema of the tool, as
	// facade.WithStrictValidation does; arguments that do not match are not sent. Default: true.
	Check *bool `json:"check,omitempty"`
	// WaitReady waits until the server is ready, as facade.WithWaitReady does.
	WaitReady bool `json:"waitReady,omitempty"`
	// Key names the call, so that it is executed at most once, as facade.WithKey does: 1 to 256
	// printable bytes. The client needs a journal. Empty means no key.
	Key string `json:"key,omitempty"`
}

// Tasks is the answer of GET api/tasks.
type Tasks struct {
	// Tasks are the calls that servers execute as tasks and that have not ended.
	Tasks []mcpvisor.OpenTask `json:"tasks"`
	// Journal has the last 500 calls with a key that the journal knows, oldest first, without
	// arguments and results; left out without a journal.
	Journal []mcpvisor.JournalEntry `json:"journal,omitempty"`
	// Earlier counts the entries of the journal before these.
	Earlier int `json:"earlier,omitempty"`
	// Problem says why the journal could not be read; empty if it could.
	Problem string `json:"problem,omitempty"`
}

// AuthorizeRequest is the body of POST api/servers/{name}/authorize.
type AuthorizeRequest struct {
	// Redirect is the URL to which the browser was sent, which completes the authorization; empty: it begins.
	Redirect string `json:"redirect,omitempty"`
}

// AuthorizeAnswer is the answer to POST api/servers/{name}/authorize.
type AuthorizeAnswer struct {
	// URL is where the user consents, within 10 minutes; left out when the authorization is complete.
	URL string `json:"url,omitempty"`
}

// TaskRequest is the body of POST api/tasks/cancel and POST api/tasks/wait. Either Number or Key is set.
type TaskRequest struct {
	// Number is that of an open task; only for api/tasks/cancel.
	Number uint64 `json:"number,omitempty"`
	// Key is that of a call in the journal, and Principal its principal; empty: the host itself.
	Principal string `json:"principal,omitempty"`
	Key       string `json:"key,omitempty"`
}

// CancelAnswer is the answer to POST api/tasks/cancel and POST api/calls/cancel: the server was asked to cancel the task or
// call, and decides whether it does.
type CancelAnswer struct {
	// Asked is false if the call had ended, or was queued, so that nothing was sent.
	Asked bool `json:"asked"`
}

// CallAnswer is the answer to POST api/call when the server gave a result.
type CallAnswer struct {
	// Result is the result as the server sent it: the JSON of an mcp.CallToolResult. The
	// tool itself may have failed; then its isError is true.
	Result json.RawMessage `json:"result"`
	// Took is the duration of the call, in nanoseconds.
	Took time.Duration `json:"tookNs"`
}

// Approvals is the answer of GET api/approvals.
type Approvals struct {
	// Approvals are the calls that wait for a decision, the oldest first.
	Approvals []Approval `json:"approvals"`
}

// Approval is a call of a tool that is sent if a person approves it; see package rules.
type Approval struct {
	// ID names the approval for POST api/approvals.
	ID string `json:"id"`
	// Principal is the authenticated client of the gateway that calls; left out without tokens.
	Principal string `json:"principal,omitempty"`
	// Client is what the client says its name is; left out for calls of the page and of the host itself.
	Client string `json:"client,omitempty"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Arguments are those that will be sent, without secrets of the configuration.
	Arguments json.RawMessage `json:"arguments"`
	// InputResponses are the answers that a further round of the call carries, by the keys of what its server required, without
	// secrets of the configuration; left out in the first round.
	InputResponses json.RawMessage `json:"inputResponses,omitempty"`
	// Rule says which rule asks.
	Rule string `json:"rule"`
	// Asked and Expires are when the call began to wait, and when it is refused without a decision.
	Asked   time.Time `json:"asked"`
	Expires time.Time `json:"expires"`
}

// DecisionRequest is the body of POST api/approvals, which decides about one call.
type DecisionRequest struct {
	ID string `json:"id"`
	// Approve sends the call; otherwise it is refused.
	Approve bool `json:"approve,omitempty"`
	// Reason says why the call is refused, in at most 500 bytes; a language model sees it.
	Reason string `json:"reason,omitempty"`
}

// DecisionAnswer is the answer to POST api/approvals.
type DecisionAnswer struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
}

// RestartAnswer is the answer to POST api/servers/{name}/restart and /start, which are under way then, and to /stop: the
// server has ended. Server is the name of the server or group.
type RestartAnswer struct {
	Server string `json:"server"`
}

// Health is the answer of GET healthz, always with status 200: the process answers.
type Health struct {
	Status string `json:"status"` // "ok"
}

// Readiness is the answer of GET readyz: with status 200 if every required server is
// ready, with 503 if not, and from the beginning of facade.Client.Close on. Without required
// servers the answer is 200: see web.WithRequired. One that is asleep or resting, or that an operator has
// stopped, counts as ready unless it was named.
type Readiness struct {
	Ready bool `json:"ready"`
	// Closed is whether the Close of the client has begun, or the host is about to. It is left out for
	// clients that may not see the page.
	Closed bool `json:"closed,omitempty"`
	// NotReady says which required servers are not ready, and why. It is left out for
	// clients that may not see the page, such as a kubelet without the token.
	NotReady []NotReady `json:"notReady,omitempty"`
}

// NotReady is one required server that is not ready.
type NotReady struct {
	Server string `json:"server"`
	// State is its state; empty if no server of that name is registered.
	State supervisor.State `json:"state,omitempty"`
	// Reason is one line.
	Reason string `json:"reason"`
	// RetryAt is when it is tried again; nil if no attempt is scheduled.
	RetryAt *time.Time `json:"retryAt,omitempty"`
}

// ErrorAnswer is the body of every answer that is not a success.
type ErrorAnswer struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what went wrong. Message is always set; the other fields are those of
// an [mcpvisor.Error], as far as there was one.
type ErrorDetail struct {
	// Kind classifies the error; empty if the request itself was wrong.
	Kind mcpvisor.ErrorKind `json:"kind,omitempty"`
	// Outcome says whether the request reached the server.
	Outcome mcpvisor.Outcome `json:"outcome,omitempty"`
	// Retryable: the same request may be made again, safely and with a chance of success. Nothing
	// was sent, and what was in the way may pass. RetryAfterMs says when.
	Retryable bool `json:"retryable,omitempty"`
	// Server is the name of the server that the error is about.
	Server string `json:"server,omitempty"`
	// Message is one line: what failed, why, and what to do.
	Message string `json:"message"`
	// Similar are names like the one that was not found, the most similar one first.
	Similar []string `json:"similar,omitempty"`
	// RetryAfterMs is how long to wait before another attempt, in milliseconds; 0 if that
	// is not known.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}
