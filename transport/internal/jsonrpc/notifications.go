package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// The rate limit of resource updates and log messages, per session. Further ones are
// dropped and counted. Changes of lists have no limit: a burst of them causes one refresh.
const (
	notificationsPerSecond = 200
	NotificationBurst      = 1000
)

// maxURI is the longest URI of a listed resource, in bytes (see package discovery). A
// notification with a longer URI concerns no resource of the catalog.
const maxURI = 8 << 10

// maxNotification bounds the parameters of one notification, in bytes. Log messages may be
// longer, because only their beginning is read.
const maxNotification = 1 << 20

// maxLogText bounds the text of one log message, in bytes. Longer text is cut.
const maxLogText = 8 << 10

// Notifications passes the notifications of a server to the owner of the session. Each
// goroutine that reads from the server may call it; the owner gets one notice at a time.
type Notifications struct {
	// Redact masks secrets in texts of the server. Set before the session opens.
	Redact redact.Redactor
	// OnProgress, if set, is called for progress of a request in flight. Set before the session opens.
	OnProgress func()

	mu     sync.Mutex // guards the fields below, and is held while notify runs
	notify func(transport.Notice)
	limit  *rate.Limiter
}

// OnNotice sets the function that gets the notices. It is called before Open; notify must
// not block.
func (n *Notifications) OnNotice(notify func(transport.Notice)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify, n.limit = notify, rate.NewLimiter(notificationsPerSecond, NotificationBurst)
}

// NotifyGap passes on that notifications may have been lost.
func (n *Notifications) NotifyGap() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify != nil {
		n.notify(transport.Notice{Kind: transport.Gap})
	}
}

// methodLog is the method of a log message as JSON, with its quotes.
const methodLog = `"notifications/message"`

// NotificationResult says what Handle did with a notification.
type NotificationResult uint8

const (
	NotHandled NotificationResult = iota // another method
	Handled                              // passed on, or no function is set
	Dropped                              // beyond the rate limit
	Malformed                            // the parameters cannot be read
)

// Handle passes on a notification if its method is one of those of [transport.Notice].
// method is the JSON string with its quotes; params may be missing. Nothing of either is
// kept.
func (n *Notifications) Handle(method, params []byte) NotificationResult {
	var notice transport.Notice
	switch string(method) {
	case `"notifications/tools/list_changed"`:
		notice = transport.Notice{Kind: transport.ListChanged, Lists: catalog.ListTools}
	case `"notifications/resources/list_changed"`:
		notice = transport.Notice{Kind: transport.ListChanged, Lists: catalog.ListResources}
	case `"notifications/prompts/list_changed"`:
		notice = transport.Notice{Kind: transport.ListChanged, Lists: catalog.ListPrompts}
	case `"notifications/resources/updated"`:
		notice.Kind = transport.ResourceUpdated
	case methodLog:
		notice.Kind = transport.LogMessage
	case `"notifications/subscriptions/acknowledged"`:
		notice.Kind = transport.Acknowledged
	case `"notifications/tasks"`, `"notifications/tasks/status"`:
		notice.Kind = transport.TaskChanged
	default:
		return NotHandled
	}
	if text := bytes.TrimSpace(params); notice.Kind != transport.ListChanged && len(text) == 0 ||
		len(text) > 0 && text[0] != '{' && (notice.Kind != transport.ListChanged || string(text) != "null") {
		return Malformed // the parameters must be an object; only list_changed may omit them
	}
	if len(params) > maxNotification && (notice.Kind == transport.ResourceUpdated || notice.Kind == transport.Acknowledged) {
		return Malformed // a task may hold a large result
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify == nil {
		return Handled
	}
	if (notice.Kind == transport.ResourceUpdated || notice.Kind == transport.LogMessage) && !n.limit.AllowN(time.Now(), 1) {
		return Dropped
	}
	if !n.readParams(&notice, params) {
		return Malformed
	}
	n.notify(notice)
	return Handled
}

// readParams completes a notice with its parameters. It reports whether they are valid.
func (n *Notifications) readParams(notice *transport.Notice, params []byte) bool {
	switch notice.Kind {
	case transport.ResourceUpdated:
		var p struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(params, &p) != nil || p.URI == "" || len(p.URI) > maxURI {
			return false
		}
		notice.URI = p.URI
	case transport.LogMessage:
		log := new(mcpvisor.LogMessage)
		err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
			switch key {
			case "level":
				log.Level, err = jsonscan.ReadString(value)
				log.Level = strings.Clone(n.displayText(log.Level, 32)) // a copy, because the line is reused
			case "logger":
				log.Logger, err = jsonscan.ReadString(value)
				log.Logger = strings.Clone(n.displayText(log.Logger, maxServerName))
			case "data":
				log.Text = n.displayJSON(value, maxLogText)
			}
			return err
		})
		if err != nil {
			return false
		}
		notice.Log = log
	case transport.Acknowledged:
		var p struct {
			Notifications struct {
				ResourceSubscriptions []string `json:"resourceSubscriptions"`
				TaskIDs               []string `json:"taskIds"`
			} `json:"notifications"`
			Meta json.RawMessage `json:"_meta"`
		}
		var meta struct {
			Stream json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		}
		if json.Unmarshal(params, &p) != nil {
			return false
		}
		notice.Honored, notice.Tasks = p.Notifications.ResourceSubscriptions, p.Notifications.TaskIDs
		_ = json.Unmarshal(p.Meta, &meta) // the member may be missing
		if id, err := strconv.ParseInt(string(bytes.TrimSpace(meta.Stream)), 10, 64); err == nil {
			notice.Stream = id
		}
	case transport.TaskChanged:
		notice.Task = task.ReadID(params)
		return notice.Task != ""
	default:
	}
	return true
}

// displayText returns a text of the server without secrets and control characters, cut to
// most bytes.
func (n *Notifications) displayText(text string, most int) string {
	return display.Shorten(display.Line(n.Redact.Text(text)), most)
}

// displayJSON is displayText for a JSON value. It reads at most maxTextRead bytes of it.
func (n *Notifications) displayJSON(data []byte, most int) string {
	text := logText(data)
	if len(data) > maxTextRead {
		return display.Shorten(display.Line(n.Redact.Prefix(text)), most)
	}
	return n.displayText(text, most)
}

// maxTextRead is how many bytes of a JSON value logText reads. It is larger than maxLogText,
// because escapes and redaction make the text shorter.
const maxTextRead = 4 * maxLogText

// wholeEscapes returns a copy of the beginning of a JSON string, without an escape sequence
// that is cut off at its end.
func wholeEscapes(text []byte) []byte {
	end := 0
	for end < len(text) {
		size := 1
		if text[end] == '\\' {
			if size = 2; end+1 < len(text) && text[end+1] == 'u' {
				size = 6
			}
		}
		if end+size > len(text) {
			break
		}
		end += size
	}
	return bytes.Clone(text[:end])
}

// logText returns the data of a log message: a string decoded, everything else as JSON. It
// reads at most maxTextRead bytes.
func logText(data []byte) string {
	long := len(data) > maxTextRead
	if long {
		data = data[:maxTextRead]
	}
	if len(data) < 2 || data[0] != '"' {
		return string(data)
	}
	if long { // the cut may be inside of an escape sequence
		data = append(wholeEscapes(data), '"')
	}
	return jsonscan.Unquote(data, true)
}

// Dispatch handles a notification that concerns a request in flight or the session as a
// whole: progress, changed lists, updated resources, log messages and acknowledgements.
// It counts in d the notifications that are malformed, unmatched or too many. It reports
// false for every other message, which the caller handles. call is the id of the request whose
// response has the message, or 0 or less if it came otherwise.
func (n *Notifications) Dispatch(env *Envelope, call int64, t *Table, d *Discarded) (handled bool) {
	if env.Method == nil || env.ID != nil || env.Malformed {
		return false
	}
	if string(env.Method) == MethodProgress {
		n.handleProgress(env.Params, t, d)
		return true
	}
	handle := n.Handle
	if to := t.loggerOf(env.Method, call); to != nil {
		handle = func(_, params []byte) NotificationResult { return n.handleLog(params, to) }
	}
	switch handle(env.Method, env.Params) {
	case NotHandled:
		return false
	case Malformed:
		d.Malformed.Add(1)
	case Dropped:
		d.Dropped.Add(1)
	default:
	}
	return true
}

// handleLog queues a log message for the caller of the request that it is about.
func (n *Notifications) handleLog(params []byte, to *ProgressQueue) NotificationResult {
	notice := transport.Notice{Kind: transport.LogMessage}
	if text := bytes.TrimSpace(params); len(text) == 0 || text[0] != '{' {
		return Malformed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.limit != nil && !n.limit.AllowN(time.Now(), 1):
		return Dropped
	case !n.readParams(&notice, params):
		return Malformed
	case !to.PushLog(notice.Log):
		return Dropped
	}
	return Handled
}

// handleProgress restarts the idle clock of the request that a progress notification
// names, and queues the report for its caller (MCP, utilities, progress).
func (n *Notifications) handleProgress(params []byte, t *Table, d *Discarded) {
	token, report, ok := ReadProgress(params, n)
	if !ok {
		d.Malformed.Add(1)
		return
	}
	to, found := t.Progressed(token)
	switch {
	case !found:
		d.Unmatched.Add(1)
		return
	case to != nil && !to.Push(report):
		d.Dropped.Add(1)
	}
	if n.OnProgress != nil {
		n.OnProgress()
	}
}

// Discarded counts the messages of a server that were skipped, by reason; see
// mcpvisor.Discarded for the reasons. Safe for concurrent use.
type Discarded struct{ Malformed, Oversize, Unmatched, Dropped atomic.Uint64 }

// CountSkipped counts a message that was not kept: there was no room for it, or it was
// longer than the limit.
func (d *Discarded) CountSkipped(noRoom bool) {
	if noRoom {
		d.Dropped.Add(1)
	} else {
		d.Oversize.Add(1)
	}
}

// Counts returns the counts so far.
func (d *Discarded) Counts() mcpvisor.Discarded {
	return mcpvisor.Discarded{
		Malformed: d.Malformed.Load(),
		Oversize:  d.Oversize.Load(),
		Unmatched: d.Unmatched.Load(),
		Dropped:   d.Dropped.Load(),
	}
}

// paramsRequired lists the notifications whose params are required by the MCP schema.
var paramsRequired = map[string]bool{
	"notifications/cancelled":                  true,
	"notifications/progress":                   true,
	"notifications/message":                    true,
	"notifications/resources/updated":          true,
	"notifications/elicitation/complete":       true,
	"notifications/subscriptions/acknowledged": true,
}

// ReadNotification returns a notification of the server; nil if it is malformed. text is the
// whole message.
func ReadNotification(text []byte, env *Envelope) *sdkrpc.Request {
	method, err := jsonscan.ReadString(env.Method)
	r := &sdkrpc.Request{Method: method, Params: env.Params}
	if err != nil || env.Malformed || !IsVersion2(text) || !WellFormed(r) {
		return nil
	}
	return r
}

// WellFormed reports whether a notification may be passed to the go-sdk. Its parameters
// must be an object, and may be missing only where the protocol allows that. The go-sdk
// does not check this: v1.8.0 dereferences the parameters of
// notifications/elicitation/complete in a goroutine of its own, where a panic cannot be
// recovered. Requests of servers do not reach the go-sdk; inbound.Requests serves them.
func WellFormed(r *sdkrpc.Request) bool {
	params := bytes.TrimSpace(r.Params)
	switch {
	case r.IsCall():
		return true
	case len(params) == 0, string(params) == "null":
		return !paramsRequired[r.Method]
	}
	return params[0] == '{'
}
