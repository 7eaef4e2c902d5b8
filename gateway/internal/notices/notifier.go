// Package notices holds the notifications of a session until its peer reads them. A Notifier has them
// all. It merges equal ones, and bounds the others by the constants below.
package notices

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// ListChanged has the notification for each kind of list.
var ListChanged = []struct {
	List   listing.Lists
	Method string
}{
	{listing.ToolList, "notifications/tools/list_changed"},
	{listing.PromptList, "notifications/prompts/list_changed"},
	{listing.ResourceList, "notifications/resources/list_changed"},
}

// Subscription is one subscription of a session to a resource.
type Subscription interface {
	comparable
	Resource() resource.Name
}

// Listener is one stream of notifications: a request subscriptions/listen, or a session
// before 2026-07-28 as a whole. Its exported fields are set before [Notifier.Listen].
type Listener[S Subscription] struct {
	ID    jsonrpc.ID    // of subscriptions/listen; not valid for a whole session
	Lists listing.Lists // changes of these are reported
	URIs  map[string]S  // subscriptions, by the URI that the peer has used; after Listen guarded by Notifier.mu
	Ended chan struct{} // closed and set to nil when the client is closed; nil for a whole session

	// What the peer has not read yet; guarded by Notifier.mu.
	ack     jsonrpc.Message // comes first; nil after it was read, and for a whole session
	changed listing.Lists
	updated []string       // URIs, oldest first
	waiting map[string]int // the URIs in updated, with the bytes that they count for partBytes
	tasks   []TaskNote     // oldest first
}

const (
	// MaxLogs bounds the log messages that wait to be read. Beyond it the oldest are dropped.
	MaxLogs = 256
	// MaxLogBytes bounds the text of these messages, in bytes.
	MaxLogBytes = 1 << 20
	// logCost is what a log message takes in addition to its text, in bytes.
	logCost = 192
)

// maxPartBytes bounds the updates of parts of resources that wait to be read, in bytes. A further one
// counts as an update of the whole resource that the session has subscribed to.
const (
	maxPartBytes = 256 << 10
	partCost     = 64 // in addition to the URI
)

// Notifier holds the notifications of a session, or of one POST with subscriptions/listen requests. Safe
// for concurrent use.
type Notifier[S Subscription] struct {
	// Key is comparable, and identifies the session; nil without one. It is set before the first use.
	Key any
	// Account counts what waits to be read: log messages, updates of parts, and notifications about tasks. What it has no
	// room for is dropped, or reported in a shorter way. It is set before the first use; nil: nothing counts.
	Account *budget.Budget

	mu        sync.Mutex // guards the fields below
	wake      func()     // called when there may be something to read; nil without a reader
	reader    uint64     // number of the stream that reads, for a session over HTTP; otherwise 0
	listeners []*Listener[S]
	session   *Listener[S] // the whole session before 2026-07-28; in listeners once it has something to hear
	logLevel  int          // index in LogLevels; messages below it are not passed on
	logs      []mcpvisor.LogMessage
	logBytes  int      // of logs
	partBytes int      // of the updates of parts, of all listeners
	taskBytes int      // of the notifications about tasks, of all listeners
	watches   int      // number of tasks whose changes are reported to session
	elicited  []string // ids of interactions that have ended, oldest first; of sessions before 2026-07-28
	closed    bool
	ended     bool // the client is closed: there are no more listeners
	// unheard are the lists that have changed while no listener asked for such changes. The first
	// listener that does hears of them. Example: a peer of 2026-07-28 reads tools/list, a server adds a
	// tool, and only then the peer sends subscriptions/listen. Without unheard the peer would keep the
	// old list.
	unheard listing.Lists
}

// New returns a Notifier without listeners.
func New[S Subscription]() *Notifier[S] {
	return &Notifier[S]{session: &Listener[S]{}, logLevel: NoLogs}
}

// ReadBy makes a stream the one that reads, in place of the last one, and sets the function that is called when there
// may be something to read.
func (n *Notifier[S]) ReadBy(stream uint64, wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reader, n.wake = stream, wake
}

func (n *Notifier[S]) signalLocked() {
	if n.wake != nil {
		n.wake()
	}
}

// Look wakes the reader, even if there is nothing to read.
func (n *Notifier[S]) Look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.signalLocked()
}

// StartSession begins to report changes to a session before 2026-07-28.
func (n *Notifier[S]) StartSession() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session.Lists = listing.AllLists
	n.joinLocked(n.session)
}

// IsNeeded reports whether a session before 2026-07-28 would miss something if the notifier were
// dropped.
func (n *Notifier[S]) IsNeeded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.session.URIs) > 0 || n.logLevel != NoLogs || n.watches > 0
}

// Watch records that changes of a task are reported to a session before 2026-07-28, until Unwatch. With
// join they wait to be read even before the session has started.
func (n *Notifier[S]) Watch(join bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches++
	if join {
		n.joinLocked(n.session)
	}
}

// Unwatch ends what Watch began, once.
func (n *Notifier[S]) Unwatch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches--
}

// joinLocked adds a listener once.
func (n *Notifier[S]) joinLocked(l *Listener[S]) {
	if !slices.Contains(n.listeners, l) {
		n.listeners = append(n.listeners, l)
	}
}

// Listen adds a listener. It reports false if the session has ended.
func (n *Notifier[S]) Listen(l *Listener[S]) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.ended {
		return false
	}
	n.joinLocked(l)
	l.changed |= n.unheard & l.Lists
	n.unheard &^= l.Lists
	n.signalLocked() // the acknowledgement
	return true
}

// Leave removes a listener.
func (n *Notifier[S]) Leave(l *Listener[S]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = slices.DeleteFunc(n.listeners, func(other *Listener[S]) bool { return other == l })
	for _, cost := range l.waiting {
		n.countLocked(&n.partBytes, -cost)
	}
	for _, note := range l.tasks {
		n.countLocked(&n.taskBytes, -len(note.Params))
	}
	l.tasks = nil
}

// countLocked adds bytes to one of the sums of what waits. It reports false if the account has no room for them.
func (n *Notifier[S]) countLocked(sum *int, bytes int) bool {
	if bytes > 0 && !n.Account.Take(bytes) {
		return false
	}
	n.Account.Return(max(-bytes, 0))
	*sum += bytes
	return true
}

// TaskNote is a notification about a task. A later one about the same task replaces it.
type TaskNote struct {
	ID, Method    string
	Params, Brief json.RawMessage // Brief leaves out the result of the task
}

// maxTaskBytes bounds the notifications about tasks that wait to be read, in bytes. Beyond it, further
// ones are brief.
const maxTaskBytes = 256 << 10

// ReportTask adds a notification about a task. l is nil for the session before 2026-07-28. A listener
// that has left gets none.
func (n *Notifier[S]) ReportTask(l *Listener[S], note TaskNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l == nil {
		l = n.session
	}
	if n.closed || !slices.Contains(n.listeners, l) {
		return
	}
	l.tasks = slices.DeleteFunc(l.tasks, func(old TaskNote) bool {
		if old.ID == note.ID {
			n.countLocked(&n.taskBytes, -len(old.Params))
		}
		return old.ID == note.ID
	})
	if n.taskBytes+len(note.Params) > maxTaskBytes || !n.countLocked(&n.taskBytes, len(note.Params)) {
		note.Params = note.Brief
		if !n.countLocked(&n.taskBytes, len(note.Params)) {
			return // the client asks for the task
		}
	}
	l.tasks = append(l.tasks, note)
	n.signalLocked()
}

// nextTaskLocked takes the oldest notification about a task.
func (n *Notifier[S]) nextTaskLocked(l *Listener[S]) jsonrpc.Message {
	note := l.tasks[0]
	l.tasks = l.tasks[1:]
	n.countLocked(&n.taskBytes, -len(note.Params))
	params := note.Params
	if l.ID.IsValid() {
		id, _ := json.Marshal(map[string]any{mcp.MetaKeySubscriptionID: l.ID.Raw()}) // it always marshals
		params = append(append(append(slices.Clip(params[:len(params)-1]), `,"_meta":`...), id...), '}')
	}
	return &jsonrpc.Request{Method: note.Method, Params: params}
}

// EndListeners ends the subscriptions/listen requests, which then get their answers.
func (n *Notifier[S]) EndListeners() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, l := range n.listeners {
		if l.Ended != nil {
			close(l.Ended)
			l.Ended = nil
		}
	}
}

// Subscribe adds a subscription of a session before 2026-07-28. It reports false if the session has one
// for the URI already, or has ended.
func (n *Notifier[S]) Subscribe(s S, uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, exists := n.session.URIs[uri]; exists || n.closed {
		return false
	}
	if n.session.URIs == nil {
		n.session.URIs = map[string]S{}
	}
	n.session.URIs[uri] = s
	n.joinLocked(n.session)
	return true
}

// Unsubscribe removes a subscription of a session before 2026-07-28, and its updates that have not been
// read. Updates that another subscription covers stay.
func (n *Notifier[S]) Unsubscribe(uri string) (s S, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.session.URIs[uri]
	n.removeLocked(n.session, uri)
	return s, ok
}

// Drop removes a released subscription, and its updates that have not been read.
func (n *Notifier[S]) Drop(s S) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		for uri, one := range l.URIs {
			if one == s {
				n.removeLocked(l, uri)
			}
		}
	}
}

// removeLocked removes a subscription of a listener, and its updates that have not been read. Updates
// that another subscription covers stay.
func (n *Notifier[S]) removeLocked(l *Listener[S], uri string) {
	delete(l.URIs, uri)
	l.updated = slices.DeleteFunc(l.updated, func(updated string) bool {
		if !isPartOf(updated, uri) {
			return false
		}
		for other := range l.URIs {
			if isPartOf(updated, other) {
				return false
			}
		}
		n.countLocked(&n.partBytes, -l.waiting[updated])
		delete(l.waiting, updated)
		return true
	})
}

// Close removes and returns all subscriptions of the session before 2026-07-28.
func (n *Notifier[S]) Close() (subscribed []S) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, s := range n.session.URIs {
		subscribed = append(subscribed, s)
	}
	n.session.URIs = nil
	n.signalLocked() // a stream ends with its session
	return subscribed
}

// ReportLists records that lists have changed.
func (n *Notifier[S]) ReportLists(changed listing.Lists) {
	n.mu.Lock()
	n.unheard |= changed
	for _, l := range n.listeners {
		l.changed |= changed & l.Lists
		n.unheard &^= l.Lists
	}
	n.signalLocked()
	n.mu.Unlock()
}

// ReportUpdate records that a resource, or a part of it, was updated.
func (n *Notifier[S]) ReportUpdate(server, uri string, hears func(S) bool) {
	n.mu.Lock()
	for _, l := range n.listeners {
		for name, r := range l.URIs {
			if r.Resource().Server == server && isPartOf(uri, r.Resource().URI) && (hears == nil || hears(r)) {
				n.addUpdateLocked(l, name, strings.TrimPrefix(uri, r.Resource().URI))
			}
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// ReportUpdates records that all subscribed resources of a server may have changed; with an empty
// server, those of all servers. offers says which resources the peer may hear of.
func (n *Notifier[S]) ReportUpdates(server string, offers func(server, uri string) bool) {
	n.mu.Lock()
	for _, l := range n.listeners {
		for name, r := range l.URIs {
			if (server == "" || r.Resource().Server == server) && offers(r.Resource().Server, r.Resource().URI) {
				n.addUpdateLocked(l, name, "")
			}
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// addUpdateLocked records that a part of a subscribed resource was updated; with an empty part, the
// whole resource.
func (n *Notifier[S]) addUpdateLocked(l *Listener[S], uri, part string) {
	cost, whole := 0, uri
	if part != "" {
		cost = len(uri) + len(part) + partCost
		if _, waits := l.waiting[uri+part]; !waits && n.partBytes+cost > maxPartBytes {
			part, cost = "", 0
		}
		uri += part
	}
	if _, waits := l.waiting[uri]; waits {
		return
	}
	if l.waiting == nil {
		l.waiting = map[string]int{}
	}
	if !n.countLocked(&n.partBytes, cost) {
		n.addUpdateLocked(l, whole, "")
		return
	}
	l.waiting[uri] = cost
	l.updated = append(l.updated, uri)
}

// isPartOf reports whether a URI is that of a resource, or continues it with a path, a query or a
// fragment.
func isPartOf(uri, resource string) bool {
	rest, ok := strings.CutPrefix(uri, resource)
	return ok && (rest == "" || strings.HasSuffix(resource, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// SetLogLevel sets the lowest level that is passed on, as an index in LogLevels.
func (n *Notifier[S]) SetLogLevel(level int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logLevel = level
}

// LevelOfLogs returns the level that the session has set, as an index in LogLevels; NoLogs if it has set
// none.
func (n *Notifier[S]) LevelOfLogs() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logLevel
}

// ReportLog adds a log message.
func (n *Notifier[S]) ReportLog(m mcpvisor.LogMessage) {
	level := slices.Index(LogLevels, m.Level)
	n.mu.Lock()
	if level >= n.logLevel && n.countLocked(&n.logBytes, logCost+len(m.Text)) {
		n.logs = append(n.logs, m)
		for len(n.logs) > MaxLogs || n.logBytes-len(n.logs)*logCost > MaxLogBytes {
			n.nextLogLocked()
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// NextOf is Next for a stream. It returns nil for a stream that another one has replaced: its connection
// may be dead.
func (n *Notifier[S]) NextOf(stream uint64) jsonrpc.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stream != n.reader {
		return nil
	}
	return n.nextLocked()
}

// ElicitedNotification returns the notification that an interaction at a URL has ended.
func ElicitedNotification(id string) jsonrpc.Message {
	return message.Notification("notifications/elicitation/complete", map[string]any{"elicitationId": id})
}

// maxElicited bounds the ended interactions that wait to be read. Beyond it the oldest is dropped.
const maxElicited = 64

// ReportElicited adds the id of an interaction that has ended.
func (n *Notifier[S]) ReportElicited(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.elicited = append(n.elicited, id); len(n.elicited) > maxElicited {
		n.elicited = n.elicited[1:]
	}
	n.signalLocked()
}

// Next returns the next notification; nil if all have been read.
func (n *Notifier[S]) Next() jsonrpc.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextLocked()
}

func (n *Notifier[S]) nextLocked() jsonrpc.Message {
	for _, l := range n.listeners {
		if m := l.ack; m != nil {
			l.ack = nil
			return m
		}
		for _, kind := range ListChanged {
			if l.changed&kind.List != 0 {
				l.changed &^= kind.List
				return message.Notification(kind.Method, l.params(nil))
			}
		}
		if len(l.tasks) > 0 {
			return n.nextTaskLocked(l)
		}
		if len(l.updated) > 0 {
			uri := l.updated[0]
			if l.updated = l.updated[1:]; len(l.updated) == 0 {
				l.updated = nil
			}
			n.countLocked(&n.partBytes, -l.waiting[uri])
			delete(l.waiting, uri)
			return message.Notification("notifications/resources/updated", l.params(map[string]any{"uri": uri}))
		}
	}
	if len(n.elicited) > 0 {
		id := n.elicited[0]
		if n.elicited = n.elicited[1:]; len(n.elicited) == 0 {
			n.elicited = nil
		}
		return ElicitedNotification(id)
	}
	if len(n.logs) > 0 {
		return message.Notification("notifications/message", LogParams(n.nextLogLocked()))
	}
	return nil
}

// nextLogLocked takes the oldest log message.
func (n *Notifier[S]) nextLogLocked() mcpvisor.LogMessage {
	m := n.logs[0]
	n.countLocked(&n.logBytes, -logCost-len(m.Text))
	n.logs = slices.Delete(n.logs, 0, 1)
	return m
}

// Acknowledge sets the first notification of the listener: what is granted of its request.
func (l *Listener[S]) Acknowledge(granted any) {
	l.ack = message.Notification("notifications/subscriptions/acknowledged", l.params(map[string]any{"notifications": granted}))
}

// Count is what a [Notifier] has at one moment.
type Count struct {
	Listeners     int
	Subscriptions int // of the session before 2026-07-28
	Tasks         int // notifications about tasks of that session that wait to be read
}

// Count counts what the notifier has at this moment.
func (n *Notifier[S]) Count() Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Count{Listeners: len(n.listeners), Subscriptions: len(n.session.URIs), Tasks: len(n.session.tasks)}
}

// params adds the id of the request of the listener to params.
func (l *Listener[S]) params(params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	if l.ID.IsValid() {
		params["_meta"] = map[string]any{mcp.MetaKeySubscriptionID: l.ID.Raw()}
	}
	return params
}

// LogLevels are the severities of RFC 5424, lowest first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// NoLogs is above every level. It applies until the session sets a level.
const NoLogs = 8

// LogParams returns the params of notifications/message. The client has turned the data into text; if
// the text is JSON, the data are the JSON value.
func LogParams(m mcpvisor.LogMessage) any {
	data, err := json.Marshal(m.Text)
	if json.Valid([]byte(m.Text)) {
		data, err = []byte(m.Text), nil
	}
	if err != nil {
		data = []byte("null")
	}
	return struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger,omitempty"`
		Data   json.RawMessage `json:"data"`
	}{m.Level, m.Logger, data}
}
