package jsonrpc

import (
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Progress (MCP, utilities, progress): a request carries a progressToken,
// which is its id; notifications/progress repeat it. Each of them restarts the
// clock of its request, and goes to the caller if that asked for it.

// MethodProgress is the method of a progress notification, as it stands in the
// message.
const MethodProgress = `"notifications/progress"`

const (
	// maxQueuedReports is how many reports may wait for one caller that is slower than its
	// server, and newsBytes how long their messages may be altogether. Further ones
	// are dropped and counted.
	maxQueuedReports = 8192
	// MaxQueuedProgress bounds the messages of all reports that wait for one caller, in bytes.
	MaxQueuedProgress = 1 << 20
	// MaxProgressMessage bounds the message of one report, in bytes; more is cut.
	MaxProgressMessage = 8 << 10
)

// ProgressQueue carries reports to the caller of one request, who reads them in its own
// goroutine. So a slow reader delays only itself, and has read all of
// them when its call returns.
type ProgressQueue struct {
	mu     sync.Mutex
	queued []mcpvisor.Progress
	bytes  int // of the messages in queued
	Ready  chan struct{}
	report func(mcpvisor.Progress)
}

// NewProgressQueue returns nil if report is nil.
func NewProgressQueue(report func(mcpvisor.Progress)) *ProgressQueue {
	if report == nil {
		return nil
	}
	return &ProgressQueue{Ready: make(chan struct{}, 1), report: report}
}

// Push adds a report, unless too many wait.
func (n *ProgressQueue) Push(p mcpvisor.Progress) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queued) >= maxQueuedReports || n.bytes+len(p.Message) > MaxQueuedProgress {
		return false
	}
	n.queued = append(n.queued, p)
	n.bytes += len(p.Message)
	select {
	case n.Ready <- struct{}{}:
	default:
	}
	return true
}

// Deliver reports what is queued.
func (n *ProgressQueue) Deliver() {
	n.mu.Lock()
	queued := n.queued
	n.queued, n.bytes = nil, 0
	n.mu.Unlock()
	for _, p := range queued {
		n.report(p)
	}
}

// ReadProgress reads the parameters of a progress notification. Its message is
// made fit to be shown, as a line of the server's log is.
func ReadProgress(params []byte, redactor *Notifications) (token int64, p mcpvisor.Progress, ok bool) {
	err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
		switch key {
		case "progressToken":
			e := Envelope{ID: value}
			if token, ok = e.NumericID(); !ok {
				return errors.New("no token of ours")
			}
		case "progress":
			p.Progress, err = jsonscan.ReadNumber(value)
		case "total":
			p.Total, err = jsonscan.ReadNumber(value)
		case "message":
			if len(value) > 0 && value[0] != '"' {
				_, err = jsonscan.ReadString(value)
				break
			}
			p.Message = redactor.displayJSON(value, MaxProgressMessage)
		}
		return err
	})
	return token, p, ok && err == nil
}
