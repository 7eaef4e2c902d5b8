package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// listChanged are the notifications about the lists.
var listChanged = []struct {
	list   listing.Lists
	method string
}{
	{listing.ToolList, "notifications/tools/list_changed"},
	{listing.PromptList, "notifications/prompts/list_changed"},
	{listing.ResourceList, "notifications/resources/list_changed"},
}

// listener is one stream of notifications: a request subscriptions/listen, or a session
// before 2026-07-28 as a whole.
type listener struct {
	id    jsonrpc.ID               // of subscriptions/listen; not valid for a whole session
	lists listing.Lists            // of which changes are reported
	uris  map[string]*subscription // the subscriptions, by the URI that the peer used

	ack     jsonrpc.Message // to be read first; nil when it was read, and for a whole session
	changed listing.Lists   // to be reported
	updated []string        // URIs to be reported, the oldest first
	waiting map[string]int  // those of updated, with their share of partBytes
	tasks   []taskNote      // to be reported, the oldest first
	ended   chan struct{}   // closed when the client is closed; nil then, and for a whole session
}

// maxLogs and maxLogBytes bound the log messages that wait to be read. The oldest are dropped.
const (
	maxLogs     = 256
	maxLogBytes = 1 << 20
)

// maxPartBytes bounds the updated parts of resources that wait to be read. Further parts count
// as updates of what the session has subscribed to.
const (
	maxPartBytes = 256 << 10
	partCost     = 64 // beside the URI
)

// notifier holds the notifications of a session until they are read. What is reported twice
// before it is read is one notification.
type notifier struct {
	key sessionKey // of which it is; zero for one request. Set before it is used

	mu        sync.Mutex // guards the fields below
	wake      func()     // called when something is to be read; nil while nobody reads
	reader    uint64     // the stream that reads, of a session over HTTP; 0 otherwise
	listeners []*listener
	session   *listener // the whole session before 2026-07-28; one of listeners after startSession
	logLevel  int       // messages below it are not passed on
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

func newNotifier() *notifier { return &notifier{session: &listener{}, logLevel: noLogs} }

// wakeWith sets what is called when something is to be read.
func (n *notifier) wakeWith(wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wake = wake
}

// readBy makes a stream the one that reads, in the place of the one before, and sets its wake.
func (n *notifier) readBy(stream uint64, wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reader, n.wake = stream, wake
}

func (n *notifier) signalLocked() {
	if n.wake != nil {
		n.wake()
	}
}

// look lets the one who reads look again, also if there is nothing to be read.
func (n *notifier) look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.signalLocked()
}

// startSession begins to report changes to a session before 2026-07-28.
func (n *notifier) startSession() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session.lists = listing.AllLists
	n.joinLocked(n.session)
}

// isNeeded reports whether the session before 2026-07-28 would miss something without it.
func (n *notifier) isNeeded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.session.uris) > 0 || n.logLevel != noLogs || n.watches > 0
}

// watch notes that changes of a task are reported to the session before 2026-07-28, until unwatch. Those that nobody
// reads yet wait.
func (n *notifier) watch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches++
	n.joinLocked(n.session)
}

func (n *notifier) unwatch() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches--
}

// joinLocked adds a listener once.
func (n *notifier) joinLocked(l *listener) {
	if !slices.Contains(n.listeners, l) {
		n.listeners = append(n.listeners, l)
	}
}

// listen adds a listener. It reports false if the session has ended.
func (n *notifier) listen(l *listener) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.ended {
		return false
	}
	n.joinLocked(l)
	l.changed |= n.unheard & l.lists
	n.unheard &^= l.lists
	n.signalLocked() // the acknowledgement
	return true
}

// leave removes a listener.
func (n *notifier) leave(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = slices.DeleteFunc(n.listeners, func(other *listener) bool { return other == l })
	for _, cost := range l.waiting {
		n.partBytes -= cost
	}
	for _, note := range l.tasks {
		n.taskBytes -= len(note.params)
	}
	l.tasks = nil
}

// taskNote is a notification about a task that waits to be read. A later one takes its place.
type taskNote struct {
	id, method    string
	params, brief json.RawMessage // brief is without what came of the task
}

// maxTaskBytes bounds the notifications about tasks that wait to be read, in bytes; beyond it they do
// not say what came of the task.
const maxTaskBytes = 256 << 10

// reportTask notes that a task has changed. A listener that has left hears nothing.
func (n *notifier) reportTask(l *listener, note taskNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !slices.Contains(n.listeners, l) {
		return
	}
	l.tasks = slices.DeleteFunc(l.tasks, func(old taskNote) bool {
		if old.id == note.id {
			n.taskBytes -= len(old.params)
		}
		return old.id == note.id
	})
	if n.taskBytes+len(note.params) > maxTaskBytes {
		note.params = note.brief
	}
	n.taskBytes += len(note.params)
	l.tasks = append(l.tasks, note)
	n.signalLocked()
}

// nextTaskLocked takes a note about a task.
func (n *notifier) nextTaskLocked(l *listener) jsonrpc.Message {
	note := l.tasks[0]
	l.tasks = l.tasks[1:]
	n.taskBytes -= len(note.params)
	params := note.params
	if l.id.IsValid() {
		id, _ := json.Marshal(map[string]any{mcp.MetaKeySubscriptionID: l.id.Raw()}) // it always marshals
		params = append(append(append(slices.Clip(params[:len(params)-1]), `,"_meta":`...), id...), '}')
	}
	return &jsonrpc.Request{Method: note.method, Params: params}
}

// endListeners ends the requests subscriptions/listen, which get their answers.
func (n *notifier) endListeners() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, l := range n.listeners {
		if l.ended != nil {
			close(l.ended)
			l.ended = nil
		}
	}
}

// subscribe adds a subscription of a session before 2026-07-28. It reports false if it
// stands already, or the session has ended.
func (n *notifier) subscribe(s *subscription, uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, stands := n.session.uris[uri]; stands || n.closed {
		return false
	}
	if n.session.uris == nil {
		n.session.uris = map[string]*subscription{}
	}
	n.session.uris[uri] = s
	n.joinLocked(n.session)
	return true
}

// unsubscribe removes a subscription of a session before 2026-07-28, and its updates that have
// not been read. Those of another subscription stay.
func (n *notifier) unsubscribe(uri string) (s *subscription, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok = n.session.uris[uri]
	n.removeLocked(n.session, uri)
	return s, ok
}

// drop removes a subscription that is released, and its updates that have not been read.
func (n *notifier) drop(s *subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		for uri, one := range l.uris {
			if one == s {
				n.removeLocked(l, uri)
			}
		}
	}
}

// removeLocked removes a subscription of a listener, and its updates that have not been read. Those of another
// subscription stay.
func (n *notifier) removeLocked(l *listener, uri string) {
	delete(l.uris, uri)
	l.updated = slices.DeleteFunc(l.updated, func(updated string) bool {
		if !isPartOf(updated, uri) {
			return false
		}
		for other := range l.uris {
			if isPartOf(updated, other) {
				return false
			}
		}
		n.partBytes -= l.waiting[updated]
		delete(l.waiting, updated)
		return true
	})
}

// close ends all subscriptions of the session before 2026-07-28, and returns them.
func (n *notifier) close() (subscribed []*subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, s := range n.session.uris {
		subscribed = append(subscribed, s)
	}
	n.session.uris = nil
	n.signalLocked() // a stream ends with its session
	return subscribed
}

// reportLists notes that lists have changed.
func (n *notifier) reportLists(changed listing.Lists) {
	n.mu.Lock()
	n.unheard |= changed
	for _, l := range n.listeners {
		l.changed |= changed & l.lists
		n.unheard &^= l.lists
	}
	n.signalLocked()
	n.mu.Unlock()
}

// reportUpdate notes that a resource was updated, or a part of it.
func (n *notifier) reportUpdate(server, uri string) {
	n.mu.Lock()
	for _, l := range n.listeners {
		for name, r := range l.uris {
			if r.Server == server && isPartOf(uri, r.URI) {
				n.addUpdateLocked(l, name, strings.TrimPrefix(uri, r.URI))
			}
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// reportUpdates notes that all subscribed resources of a server may have changed; of all servers if it is empty.
// offers says which of them the peer may hear of.
func (n *notifier) reportUpdates(server string, offers func(server, uri string) bool) {
	n.mu.Lock()
	for _, l := range n.listeners {
		for name, r := range l.uris {
			if (server == "" || r.Server == server) && offers(r.Server, r.URI) {
				n.addUpdateLocked(l, name, "")
			}
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// addUpdateLocked notes that the part of a subscribed resource was updated; all of it if the
// part is empty.
func (n *notifier) addUpdateLocked(l *listener, uri, part string) {
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

// setLogLevel passes on messages of that level and above; see loggingLevels.
func (n *notifier) setLogLevel(level int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logLevel = level
}

// levelOfLogs is the level that the session has set; noLogs if it has not.
func (n *notifier) levelOfLogs() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.logLevel
}

// reportLog notes a log message.
func (n *notifier) reportLog(m mcpvisor.LogMessage) {
	level := slices.Index(loggingLevels, m.Level)
	n.mu.Lock()
	if level >= n.logLevel {
		n.logs = append(n.logs, m)
		n.logBytes += len(m.Text)
		for len(n.logs) > maxLogs || n.logBytes > maxLogBytes {
			n.logBytes -= len(n.logs[0].Text)
			n.logs = slices.Delete(n.logs, 0, 1)
		}
	}
	n.signalLocked()
	n.mu.Unlock()
}

// nextOf is next for a stream. It returns nil for one in whose place another one reads: that one is of a connection that
// may be dead.
func (n *notifier) nextOf(stream uint64) jsonrpc.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stream != n.reader {
		return nil
	}
	return n.nextLocked()
}

func elicitedNotification(id string) jsonrpc.Message {
	return message.Notification("notifications/elicitation/complete", map[string]any{"elicitationId": id})
}

// maxElicited is how many ended interactions wait to be read. The oldest are dropped.
const maxElicited = 64

// reportElicited notes that an interaction has ended.
func (n *notifier) reportElicited(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.elicited = append(n.elicited, id); len(n.elicited) > maxElicited {
		n.elicited = n.elicited[1:]
	}
	n.signalLocked()
}

// next returns the next notification; nil if all have been read.
func (n *notifier) next() jsonrpc.Message {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextLocked()
}

func (n *notifier) nextLocked() jsonrpc.Message {
	for _, l := range n.listeners {
		if m := l.ack; m != nil {
			l.ack = nil
			return m
		}
		for _, kind := range listChanged {
			if l.changed&kind.list != 0 {
				l.changed &^= kind.list
				return message.Notification(kind.method, l.params(nil))
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
		return elicitedNotification(id)
	}
	if len(n.logs) > 0 {
		m := n.logs[0]
		n.logBytes -= len(m.Text)
		n.logs = slices.Delete(n.logs, 0, 1)
		return message.Notification("notifications/message", logParams(m))
	}
	return nil
}

// params adds to params which request they belong to.
func (l *listener) params(params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	if l.id.IsValid() {
		params["_meta"] = map[string]any{mcp.MetaKeySubscriptionID: l.id.Raw()}
	}
	return params
}

// loggingLevels are the severities of RFC 5424, lowest first.
var loggingLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// noLogs is above every level. It applies until the session sets one.
const noLogs = 8

// setLevelTimeout bounds the requests to the servers. One that does not answer keeps its
// level.
const setLevelTimeout = 5 * time.Second

// setLoggingLevel answers logging/setLevel: it sets the level of every registered server that is offered.
// Those that refuse it, or have no log messages, do not matter. A session sets one level at a time.
func (c *connection) setLoggingLevel(r *request, p *params) (any, error) {
	level := slices.Index(loggingLevels, p.Level)
	if level < 0 {
		return nil, message.InvalidParams(fmt.Sprintf("unknown log level %s; use one of %v", message.Quote(p.Level), loggingLevels))
	}
	c.notify.setLogLevel(level)
	levelling := c.placesOf().levelling
	if err := r.acquire(levelling); err != nil {
		return nil, err
	}
	defer func() { <-levelling }()
	ctx, cancel := context.WithTimeout(r.ctx, setLevelTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, server := range c.view.ServerNames() {
		if !c.isCopied(server) { // a copy that starts later gets the level, too
			all.Go(func() { _ = c.client.SetLoggingLevel(ctx, server, p.Level) })
		}
	}
	if t := c.tenant.Load(); t != nil {
		for server, copied := range t.copies() {
			all.Go(func() { _ = copied.SetLoggingLevel(ctx, server, p.Level) })
		}
	}
	all.Wait()
	return struct{}{}, nil
}

// logParams are the params of notifications/message. The client has made text of the data.
func logParams(m mcpvisor.LogMessage) any {
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
