package relay

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/relayhook"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A Relay is a [facade.Client] with the methods of [Methods]; [Of] makes one.
type Relay struct {
	*facade.Client
	Methods
}

// Of returns the client with all methods. It costs nothing to speak of, and keeps nothing.
func Of(c *facade.Client) Relay { return Relay{c, relayhook.Methods(c).(Methods)} }

// Catalog is what one server offers, sorted, and shared: do not change it. Version changes whenever the lists are read again.
type Catalog = relayhook.Catalog

// Methods are those that a [Relay] has beside the methods of its [facade.Client].
type Methods interface { //nolint:interfacebloat // the methods of one type, which is the only one
	// ReadResourceRaw is ReadResource that returns the result as the server sent it, undecoded: the JSON
	// of an mcp.ReadResourceResult. Members that the go-sdk does not know survive.
	ReadResourceRaw(ctx context.Context, server, uri string, opts ...facade.CallOption) (json.RawMessage, error)

	// GetPromptRaw is GetPrompt that returns the result as the server sent it, undecoded: the JSON of an
	// mcp.GetPromptResult. Members that the go-sdk does not know survive.
	GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...facade.CallOption) (json.RawMessage, error)

	// CompleteRaw is Complete that returns the result as the server sent it, undecoded: the JSON of an
	// mcp.CompleteResult. Members that the go-sdk does not know survive.
	CompleteRaw(ctx context.Context, server string, r facade.CompletionRequest, opts ...facade.CallOption) (json.RawMessage, error)

	// TaskOf returns a handle on a task that a server has made of an earlier call, of this host or of
	// another one; see [WithTaskRelay] and [WithTaskOrigin]. Nothing is sent. Client.Tasks lists the task while
	// its Wait runs.
	//
	// Errors: ErrUnknownServer (also if another server has the name now), ErrInvalid (there is no id, or it
	// is longer than 1,024 bytes).
	TaskOf(server, id string, opts ...facade.CallOption) (*facade.Task, error)

	// CancelCall ends a call that Client.CallsInFlight lists, for an operator: its caller gets an error with ErrCanceled that
	// says so. If it was sent, its server is notified, which need not heed that. ErrInvalid: the call has ended, or has no ID.
	CancelCall(call monitor.CallInFlight) error

	// CancelTask asks a server to cancel the task that Client.Tasks lists under number. The server
	// decides whether it does; each waiting caller gets the outcome of the task.
	//
	// Errors: ErrInvalid (no such task is open), ErrUnavailable and the other errors of a request.
	CancelTask(ctx context.Context, number uint64) error

	// Catalogs yields what each registered server offers or, if it is not ready, offered last. The
	// servers are those registered when the loop begins, sorted by name. So Catalogs says which
	// server a name belongs to even while that server is down, evicted or being replaced. It leaves
	// out servers that have never been ready, and yields none after Close. It copies nothing.
	Catalogs() iter.Seq[Catalog]

	// Extensions are what facade.WithExtensions has set. They must not be changed.
	Extensions() map[string]json.RawMessage

	// AwaitLists waits until Catalogs has a server. It does not wake one that is asleep or resting.
	//
	// Errors: those of WaitReady.
	AwaitLists(ctx context.Context, server string) error

	// CopyServer starts a server once more, for a client that must not share it: it returns a client of its
	// own with this one server, which has the name and the spec of the server that is registered here, and
	// is StartSupervised, without a standby. That client has the options of this one, changed by opts. The
	// two share the journal, the bounds of memory, and what is known of calls (the calls of History, ToolStats, the
	// counts of calls in the status), and nothing else: lists, events and subscriptions are of each. What happens here to the
	// server later does not change the copy, except that Fence ends both.
	//
	// Close ends the copy. Close of this client ends all its copies. CopyServer does not wait for the
	// server: WaitReady and WithWaitReady do. While the copy is open, the server does not fall asleep. The copy itself never does.
	//
	// Errors: ErrUnknownServer, ErrInvalid (an option cannot work, or the server is Exclusive), ErrEvicted (it was fenced), ErrUnavailable
	// (an operator has stopped the server, it waits for others, or it comes after others and is at rest: WaitReady wakes them all), ErrClosed.
	CopyServer(server string, opts ...facade.Option) (*facade.Client, error)

	// SpeaksBothEras reports whether a server may have a copy of the legacy era beside its session, which is of
	// the modern one: it says that it speaks both, and its spec allows both and a copy. known is false while a
	// registered server has not been ready.
	SpeaksBothEras(server string) (both, known bool)

	// SpeakLegacy restarts an exclusive server that speaks both eras in the legacy one, which serves clients of both, for a
	// client that needs it. One that is at rest starts in that era when it is woken. It does so once for each registration, and only if no call was made of it.
	SpeakLegacy(ctx context.Context, server string) error

	// RestartFor is Restart for a program that restarts servers by itself: the session ends with the cause,
	// such as supervisor.CauseMoved.
	RestartFor(ctx context.Context, name string, cause *supervisor.Cause) error

	// FollowElicitations calls f when a server reports that the interaction at a URL has ended, until stop is
	// called; elicitationID is that of the ElicitationRequest. Not every server reports it. A copy (CopyServer) has
	// followers of its own. f must not wait, and may be called once more after stop.
	FollowElicitations(f func(server, elicitationID string)) (stop func())

	// NotifyRootsChanged tells the servers before 2026-07-28 that the roots have changed with which calls and other
	// handlers answer (facade.Declared.RootsListChanged). Changes in quick succession may be told once. It does not wait
	// for the servers. A client that has not declared it does nothing.
	NotifyRootsChanged()

	// WatchFrom is Watch that first delivers the kept events with a higher Seq than after; see Client.History.
	// No event comes twice, and none is left out between the kept events and the new ones. If some are no longer
	// kept, EventMissed comes first and says how many, of all kinds. With 0 the watch begins with the oldest event
	// that is kept.
	WatchFrom(ctx context.Context, after uint64, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event

	// UpdateObserver calls next with the current observer, and installs the one that next returns;
	// nil means none, in both places. A request that has begun keeps the observer that saw its start.
	// To keep the current observer, return one that calls it. next must not call the client.
	// Concurrent updates run one after another.
	UpdateObserver(next func(now monitor.Observer) monitor.Observer)

	// Closed reports whether Close has begun. Readiness probes use it: a program that is about to end should get
	// no new work.
	Closed() bool
}
