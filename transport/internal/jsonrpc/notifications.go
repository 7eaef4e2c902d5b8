package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// A server may tell this many updates and log messages a second, with bursts;
// further ones are dropped and counted. Changes of lists cost nothing and are
// always taken, as they are answered by looking.
const (
	notificationsPerSecond = 200
	NotificationBurst      = 1000
)

// maxLogText bounds what is kept of one log message.
const maxLogText = 8 << 10

// Notifications passes notifications on to the owner of the session. It is called by those
// who read from the server.
type Notifications struct {
	mu     sync.Mutex
	notify func(transport.Notice)
	limit  *rate.Limiter
	Redact redact.Redactor
}

// OnNotice sets who is told. Called before Open; tell must not block.
func (n *Notifications) OnNotice(notify func(transport.Notice)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify, n.limit = notify, rate.NewLimiter(notificationsPerSecond, NotificationBurst)
}

// NotifyGap tells that notifications may have been lost.
func (n *Notifications) NotifyGap() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify != nil {
		n.notify(transport.Notice{Kind: transport.Gap})
	}
}

// NotificationResult says what Handle did with a notification.
type NotificationResult uint8

const (
	NotHandled NotificationResult = iota // another kind of message
	Handled                              // passed on; or no function is set
	Dropped                              // there are too many
	Malformed                            // it cannot be read
)

// Handle tells a notification, if it is one of those. method is the JSON string,
// params may be missing.
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
	case `"notifications/message"`:
		notice.Kind = transport.LogMessage
	case `"notifications/subscriptions/acknowledged"`:
		notice.Kind = transport.Acknowledged
	default:
		return NotHandled
	}
	if text := bytes.TrimSpace(params); notice.Kind != transport.ListChanged && len(text) == 0 ||
		len(text) > 0 && text[0] != '{' && (notice.Kind != transport.ListChanged || string(text) != "null") {
		return Malformed // the parameters are an object, and missing only where they may be
	}
	if len(params) > maxNotification && notice.Kind != transport.ListChanged && notice.Kind != transport.LogMessage {
		return Malformed
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
				log.Level = strings.Clone(display.Shorten(display.Line(log.Level), 32)) // the line is the reader's
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

// displayText makes a server's text fit to be shown.
func (n *Notifications) displayText(text string, most int) string {
	return display.Shorten(display.Line(n.Redact.Text(text)), most)
}

// displayJSON is fit for a JSON value, of which textOf takes no more than it needs.
func (n *Notifications) displayJSON(data []byte, most int) string {
	text := logText(data)
	if len(data) > maxTextRead {
		return display.Shorten(display.Line(n.Redact.Prefix(text)), most)
	}
	return n.displayText(text, most)
}

// maxTextRead is how much of a JSON value textOf looks at.
const maxTextRead = 4 * maxLogText

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

// logText is the data of a log message: text as it is, everything else as JSON.
// Of a long one only as much is looked at as may be kept.
func logText(data []byte) string {
	long := len(data) > maxTextRead
	if long {
		data = data[:maxTextRead]
	}
	if len(data) < 2 || data[0] != '"' {
		return string(data)
	}
	if long { // it ends in the middle, perhaps of an escape
		data = append(wholeEscapes(data), '"')
	}
	return jsonscan.Unquote(data, true)
}
