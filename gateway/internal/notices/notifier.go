// Package notices holds the notifications of a session until its peer reads them. What is reported twice before it is
// read is one notification, and what waits is bounded.
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
)

// ListChanged are the notifications about the lists.
var ListChanged = []struct {
	List   listing.Lists
	Method string
}{
	{listing.ToolList, "notifications/tools/list_changed"},
	{listing.PromptList, "notifications/prompts/list_changed"},
	{listing.ResourceList, "notifications/resources/list_changed"},
}

// Subscription is what a session holds of a resource.
type Subscription interface {
	comparable
	Resource() resource.Name
}

// Listener is one stream of notifications: a request subscriptions/listen, or a session
// before 2026-07-28 as a whole. Its exported fields are set before [Notifier.Listen].
type Listener[S Subscription] struct {
	ID    jsonrpc.ID    // of subscriptions/listen; not valid for a whole session
	Lists listing.Lists // of which changes are reported
	URIs  map[string]S  // the subscriptions, by the URI that the peer used. Then guarded by Notifier.mu
	Ended chan struct{} // closed when the client is closed; nil then, and for a whole session

	ack     jsonrpc.Message // to be read first; nil when it was read, and for a whole session
	changed listing.Lists   // to be reported
	updated []string        // URIs to be reported, the oldest first
	waiting map[string]int  // those of updated, with their share of partBytes
	tasks   []TaskNote      // to be reported, the oldest first
}

const (
	// MaxLogs is how many log messages wait to be read. The oldest are dropped.
	MaxLogs = 256
	// MaxLogBytes bounds the text of these messages, in bytes.
	MaxLogBytes = 1 << 20
)

// maxPartBytes bounds the updated parts of resources that wait to be read. Further parts count
// as updates of what the session has subscribed to.
const (
	maxPartBytes = 256 << 10
	partCost     = 64 // beside the URI
)

// Notifier holds the notifications of a session, or of one request subscriptions/listen. Safe for concurrent use.
type Notifier[S Subscription] struct {
	// Key is comparable, and names the session; nil: it is of one request. It is set before the first use.
	Key any

	mu        sync.Mutex // guards the fields below
	wake      func()     // called when something is to be read; nil while nobody reads
	reader    uint64     // the stream that reads, of a session over HTTP; 0 otherwise
	listeners []*Listener[S]
	session   *Listener[S] // the whole session before 2026-07-28; one of listeners after startSession
	logLevel  int          // messages below it are not passed on
	logs      []mcpvisor.LogMessage
	logBytes  int      // of logs
	partBytes int      // of the parts in the updates of listeners
	taskBytes int      // of the notes about tasks of listeners
	watches   int      // of tasks, whose changes are reported to session
	elicited  []string // ids of interactions at a URL that have ended, the oldest first; of a session before 2026-07-28
	closed    bool
	ended     bool // the client is closed: there are no more listeners
	// unheard are the lists that changed while no listener wanted to know. A peer of 2026-07-28 may have read
	// them before it listens: its first listener hears of the change. As in: the peer reads tools/list, a server
	// adds a tool, and only then the peer sends subscriptions/listen. Without unheard it would keep the old list.
	unheard listing.Lists
}

// New returns a Notifier without listeners.
func New[S Subscription]() *Notifier[S] {
	return &Notifier[S]{session: &Listener[S]{}, logLevel: NoLogs}
}

// WakeWith sets what is called when something is to be read.
func (n *Notifier[S]) WakeWith(wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wake = wake
}

// ReadBy makes a stream the one that reads, in the place of the one before, and sets its wake.
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

// Look lets the one who reads look again, also if there is nothing to be read.
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

// IsNeeded reports whether the session before 2026-07-28 would miss something without it.
func (n *Notifier[S]) IsNeeded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.session.URIs) > 0 || n.logLevel != NoLogs || n.watches > 0
}

// Watch notes that changes of a task are reported to the session before 2026-07-28, until Unwatch. With join those that
// nobody reads yet wait, although the session has not started.
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
		n.partBytes -= cost
	}
	for _, note := range l.tasks {
		n.taskBytes -= len(note.Params)
	}
	l.tasks = nil
}

// TaskNote is a notification about a task that waits to be read. A later one takes its place.
type TaskNote struct {
	ID, Method    string
	Params, Brief json.RawMessage // Brief is without what came of the task
}

// maxTaskBytes bounds the notifications about tasks that wait to be read, in bytes; beyond it they do
// not say what came of the task.
const maxTaskBytes = 256 << 10

// ReportTask notes that a task has changed; l is nil for the session before 2026-07-28. A listener that has left hears
// nothing.
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
			n.taskBytes -= len(old.Params)
		}
		return old.ID == note.ID
	})
	if n.taskBytes+len(note.Params) > maxTaskBytes {
		note.Params = note.Brief
	}
	n.taskBytes += len(note.Params)
	l.tasks = append(l.tasks, note)
	n.signalLocked()
}

// nextTaskLocked takes a note about a task.
func (n *Notifier[S]) nextTaskLocked(l *Listener[S]) jsonrpc.Message {
	note := l.tasks[0]
	l.tasks = l.tasks[1:]
	n.taskBytes -= len(note.Params)
	params := note.Params
	if l.ID.IsValid() {
		id, _ := json.Marshal(map[string]any{mcp.MetaKeySubscriptionID: l.ID.Raw()}) // it always marshals
		params = append(append(append(slices.Clip(params[:len(params)-1]), `,"_meta":`...), id...), '}')
	}
	return &jsonrpc.Request{Method: note.Method, Params: params}
}

// EndListeners ends the requests subscriptions/listen, which get their answers.
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

// Subscribe adds a subscription of a session before 2026-07-28. It reports false if it
// stands already, or the session has ended.
func (n *Notifier[S]) Subscribe(s S, uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, stands := n.session.URIs[uri]; stands || n.closed {
		return false
	}
	if n.session.URIs == nil {
		n.session.URIs = map[string]S{}
	}
	n.session.URIs[uri] = s
	n.joinLocked(n.session)
	return true
}

// Unsubscribe removes a subscription of a session before 2026-07-28, and its updates that have
// not been read. Those of another subscription stay.
func (n *Notifier[S]) Unsubscribe(uri string) (s S, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.session.URIs[uri]
	n.removeLocked(n.session, uri)
	return s, ok
}

// Drop removes a subscription that is released, and its updates that have not been read.
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

// removeLocked removes a subscription of a listener, and its updates that have not been read. Those of another
// subscription stay.
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
		n.partBytes -= l.waiting[updated]
		delete(l.waiting, updated)
		return true
	})
}

// Close ends all subscriptions of the session before 2026-07-28, and returns them.
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

// ReportLists notes that lists have changed.
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

// ReportUpdate notes that a resource was updated, or a part of it.
func (n *Notifier[S]) ReportUpdate(server, uri string) {
	n.mu.Lock()
	for _, l := range n.listeners {
		for name, r := range l.URIs {
			if r.Resource().Server == server && isPartOf(uri, r.Resource().URI) {
				n.addUpdateLocked(l, name, strings.TrimPrefix(uri, r.Resource().URI))
			}
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// ReportUpdates notes that all subscribed resources of a server may have changed; of all servers if it is empty.
// offers says which of them the peer may hear of.
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

// addUpdateLocked notes that the part of a subscribed resource was updated; all of it if the
// part is empty.
func (n *Notifier[S]) addUpdateLocked(l *Listener[S], uri, part string) {
	cost := 0
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
	l.waiting[uri] = cost
	l.updated = append(l.updated, uri)
	n.partBytes += cost
}

// isPartOf reports whether a URI is a resource, or below it: after its URI the path, the query
// or the fragment continues.
func isPartOf(uri, resource string) bool {
	rest, ok := strings.CutPrefix(uri, resource)
	return ok && (rest == "" || strings.HasSuffix(resource, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// SetLogLevel passes on messages of that level and above; see LogLevels.
func (n *Notifier[S]) SetLogLevel(level int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logLevel = level
}

// LevelOfLogs is the level that the session has set; NoLogs if it has not.
func (n *Notifier[S]) LevelOfLogs() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logLevel
}

// ReportLog notes a log message.
func (n *Notifier[S]) ReportLog(m mcpvisor.LogMessage) {
	level := slices.Index(LogLevels, m.Level)
	n.mu.Lock()
	if level >= n.logLevel {
		n.logs = append(n.logs, m)
		n.logBytes += len(m.Text)
		for len(n.logs) > MaxLogs || n.logBytes > MaxLogBytes {
			n.logBytes -= len(n.logs[0].Text)
			n.logs = slices.Delete(n.logs, 0, 1)
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// NextOf is Next for a stream. It returns nil for one in whose place another one reads: that one is of a connection that
// may be dead.
func (n *Notifier[S]) NextOf(stream uint64) jsonrpc.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stream != n.reader {
		return nil
	}
	return n.nextLocked()
}

// ElicitedNotification says that an interaction at a URL has ended.
func ElicitedNotification(id string) jsonrpc.Message {
	return message.Notification("notifications/elicitation/complete", map[string]any{"elicitationId": id})
}

// maxElicited is how many ended interactions wait to be read. The oldest are dropped.
const maxElicited = 64

// ReportElicited notes that an interaction has ended.
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
			n.partBytes -= l.waiting[uri]
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
		m := n.logs[0]
		n.logBytes -= len(m.Text)
		n.logs = slices.Delete(n.logs, 0, 1)
		return message.Notification("notifications/message", LogParams(m))
	}
	return nil
}

// Acknowledge sets what the listener is told first: what is granted of its request.
func (l *Listener[S]) Acknowledge(granted any) {
	l.ack = message.Notification("notifications/subscriptions/acknowledged", l.params(map[string]any{"notifications": granted}))
}

// Count is what a [Notifier] has at one moment.
type Count struct {
	Listeners     int
	Subscriptions int // of the session before 2026-07-28
	Tasks         int // notifications about tasks of that session that wait to be read
}

// Count returns what the notifier has.
func (n *Notifier[S]) Count() Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Count{Listeners: len(n.listeners), Subscriptions: len(n.session.URIs), Tasks: len(n.session.tasks)}
}

// params adds to params which request they belong to.
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

// NoLogs is above every level. It applies until the session sets one.
const NoLogs = 8

// LogParams are the params of notifications/message. The client has made text of the data.
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
