package transport

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Notice is what a server tells without being asked, as far as it concerns the
// whole session: progress belongs to one request, and what asks for an answer
// is a request.
type Notice struct {
	Kind NoticeKind
	// Lists is set for ListChanged.
	Lists catalog.Lists
	// URI is set for ResourceUpdated.
	URI string
	// Log is set for LogMessage.
	Log *mcpvisor.LogMessage
	// Honored is set for Acknowledged: the resources that the server watches.
	Honored []string
	// Stream is set for Acknowledged: the id of the request that asked for it, see
	// [Stream.Sent]; 0 if the server does not say.
	Stream int64
}

// NoticeKind tells the notices apart.
type NoticeKind uint8

// The notices of MCP, utilities and server features.
const (
	// ListChanged: notifications/{tools,resources,prompts}/list_changed.
	ListChanged NoticeKind = iota + 1
	// ResourceUpdated: notifications/resources/updated.
	ResourceUpdated
	// LogMessage: notifications/message.
	LogMessage
	// Acknowledged: notifications/subscriptions/acknowledged (2026-07-28), the
	// first message on a stream that was asked for with subscriptions/listen.
	Acknowledged
	// Gap: for a while the server could tell nothing, and now it can again. No
	// message of the server's; a stream of its notifications was lost.
	Gap
)

// A server may tell this many updates and log messages a second, with bursts;
// further ones are dropped and counted. Changes of lists cost nothing and are
// always taken, as they are answered by looking.
const (
	notificationsPerSecond = 200
	notificationBurst      = 1000
)

// maxLogText bounds what is kept of one log message.
const maxLogText = 8 << 10

// Notifications hands notifications to whoever owns the session. It is called by those
// who read from the server.
type Notifications struct {
	mu     sync.Mutex
	notify func(Notice)
	limit  *rate.Limiter
	Redact redact.Redactor
}

// OnNotice sets who is told. Called before Open; tell must not block.
func (n *Notifications) OnNotice(tell func(Notice)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify, n.limit = tell, rate.NewLimiter(notificationsPerSecond, notificationBurst)
}

// NotifyGap tells that notifications may have been lost.
func (n *Notifications) NotifyGap() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify != nil {
		n.notify(Notice{Kind: Gap})
	}
}

// NotificationResult says what Handle did with a notification.
type NotificationResult uint8

const (
	NotHandled NotificationResult = iota // somebody else's
	Handled                              // told, or nobody listens
	Dropped                              // there are too many
	Malformed                            // it cannot be read
)

// Handle tells a notification, if it is one of those. method is the JSON string,
// params may be missing.
func (n *Notifications) Handle(method, params []byte) NotificationResult {
	var notice Notice
	switch string(method) {
	case `"notifications/tools/list_changed"`:
		notice = Notice{Kind: ListChanged, Lists: catalog.ListTools}
	case `"notifications/resources/list_changed"`:
		notice = Notice{Kind: ListChanged, Lists: catalog.ListResources}
	case `"notifications/prompts/list_changed"`:
		notice = Notice{Kind: ListChanged, Lists: catalog.ListPrompts}
	case `"notifications/resources/updated"`:
		notice.Kind = ResourceUpdated
	case `"notifications/message"`:
		notice.Kind = LogMessage
	case `"notifications/subscriptions/acknowledged"`:
		notice.Kind = Acknowledged
	default:
		return NotHandled
	}
	if text := bytes.TrimSpace(params); notice.Kind != ListChanged && len(text) == 0 ||
		len(text) > 0 && text[0] != '{' && (notice.Kind != ListChanged || string(text) != "null") {
		return Malformed // the parameters are an object, and missing only where they may be
	}
	if len(params) > maxNotification && notice.Kind != ListChanged && notice.Kind != LogMessage {
		return Malformed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify == nil {
		return Handled
	}
	if (notice.Kind == ResourceUpdated || notice.Kind == LogMessage) && !n.limit.AllowN(time.Now(), 1) {
		return Dropped
	}
	if !n.read(&notice, params) {
		return Malformed
	}
	n.notify(notice)
	return Handled
}

func (n *Notifications) read(notice *Notice, params []byte) bool {
	switch notice.Kind {
	case ResourceUpdated:
		var p struct {
			URI string `json:"uri"`
		}
		if json.Unmarshal(params, &p) != nil || p.URI == "" || len(p.URI) > maxURI {
			return false
		}
		notice.URI = p.URI
	case LogMessage:
		log := new(mcpvisor.LogMessage)
		err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
			switch key {
			case "level":
				log.Level, err = jsonscan.ReadString(value)
				log.Level = strings.Clone(display.Shorten(display.Line(log.Level), 32)) // the line is the reader's
			case "logger":
				log.Logger, err = jsonscan.ReadString(value)
				log.Logger = strings.Clone(n.fit(log.Logger, maxServerName))
			case "data":
				log.Text = n.fitJSON(value, maxLogText)
			}
			return err
		})
		if err != nil {
			return false
		}
		notice.Log = log
	case Acknowledged:
		var p struct {
			Notifications struct {
				ResourceSubscriptions []string `json:"resourceSubscriptions"`
			} `json:"notifications"`
			Meta json.RawMessage `json:"_meta"`
		}
		var meta struct {
			Stream json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		}
		if json.Unmarshal(params, &p) != nil {
			return false
		}
		notice.Honored = p.Notifications.ResourceSubscriptions
		_ = json.Unmarshal(p.Meta, &meta) // it need not be there
		if id, err := strconv.ParseInt(string(bytes.TrimSpace(meta.Stream)), 10, 64); err == nil {
			notice.Stream = id
		}
	}
	return true
}

// fit makes a server's text fit to be shown.
func (n *Notifications) fit(text string, most int) string {
	return display.Shorten(display.Line(n.Redact.Text(text)), most)
}

// fitJSON is fit for a JSON value, of which textOf takes no more than it needs.
func (n *Notifications) fitJSON(data []byte, most int) string {
	text := textOf(data)
	if len(data) > textTaken {
		return display.Shorten(display.Line(n.Redact.Prefix(text)), most)
	}
	return n.fit(text, most)
}

// textTaken is how much of a JSON value textOf looks at.
const textTaken = 4 * maxLogText

// wholeEscapes is a copy of the beginning of a JSON string, without an escape
// that is cut in two.
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

// textOf is the data of a log message: text as it is, everything else as JSON.
// Of a long one only as much is looked at as may be kept.
func textOf(data []byte) string {
	long := len(data) > textTaken
	if long {
		data = data[:textTaken]
	}
	if len(data) < 2 || data[0] != '"' {
		return string(data)
	}
	if long { // it ends in the middle, perhaps of an escape
		data = append(wholeEscapes(data), '"')
	}
	return jsonscan.Unquote(data, true)
}

// Unsupported reports whether a server has said that it does not know a request,
// or not with such parameters: asking again does not help.
func Unsupported(err error) bool {
	code, ok := ErrorCode(err)
	return ok && (code == sdkrpc.CodeMethodNotFound || code == sdkrpc.CodeInvalidParams)
}
