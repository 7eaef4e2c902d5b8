package jsonrpc

import (
	"errors"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Progress (MCP, utilities, progress): a request with Track carries its id as the
// progressToken, and each notifications/progress repeats the token. A notification restarts
// the idle clock of its request, and its report goes to the caller if Request.Progress is
// set.

// MethodProgress is the method of a progress notification as JSON, with its quotes.
const MethodProgress = `"notifications/progress"`

const (
	// maxQueuedReports is how many reports may wait for one caller that reads more slowly
	// than its server sends. Further reports are dropped and counted.
	maxQueuedReports = 8192
	// MaxQueuedProgress bounds the messages of all reports that wait for one caller, in
	// bytes. Further reports are dropped and counted.
	MaxQueuedProgress = 1 << 20
	// MaxProgressMessage bounds the message of one report, in bytes. Longer text is cut.
	MaxProgressMessage = 8 << 10
)

// ProgressQueue carries reports, and log messages about the request, from the goroutine that reads
// from the server to the caller of one request. The caller delivers them in its own goroutine. So a
// slow function of the caller delays only its own call, and has received all when the call returns.
type ProgressQueue struct {
	// Ready gets a value when reports are queued. Its capacity is 1.
	Ready  chan struct{}
	report func(mcpvisor.Progress)   // called by Deliver only; nil: no reports are wanted
	log    func(mcpvisor.LogMessage) // the same for log messages

	mu     sync.Mutex // guards the fields below
	queued []queuedReport
	bytes  int // of the texts in queued
}

// queuedReport is a log message or, if that is nil, a report.
type queuedReport struct {
	progress mcpvisor.Progress
	log      *mcpvisor.LogMessage
}

// NewProgressQueue returns a queue for the functions of a request; nil if it has none.
func NewProgressQueue(r *transport.Request) *ProgressQueue {
	if r.Progress == nil && (r.Caller == nil || r.Caller.Log == nil) {
		return nil
	}
	q := &ProgressQueue{Ready: make(chan struct{}, 1), report: r.Progress}
	if r.Caller != nil {
		q.log = r.Caller.Log
	}
	return q
}

// Push queues a report. It reports false if too many wait. It does not block.
func (q *ProgressQueue) Push(p mcpvisor.Progress) bool {
	return q.report == nil || q.push(queuedReport{progress: p}, len(p.Message))
}

// PushLog is Push for a log message.
func (q *ProgressQueue) PushLog(m *mcpvisor.LogMessage) bool {
	return q.push(queuedReport{log: m}, len(m.Text)+len(m.Logger))
}

func (q *ProgressQueue) push(r queuedReport, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued) >= maxQueuedReports || q.bytes+size > MaxQueuedProgress {
		return false
	}
	q.queued = append(q.queued, r)
	q.bytes += size
	select {
	case q.Ready <- struct{}{}:
	default:
	}
	return true
}

// Deliver passes all that is queued to the functions of the caller. The goroutine of the caller
// calls it.
func (q *ProgressQueue) Deliver() {
	q.mu.Lock()
	queued := q.queued
	q.queued, q.bytes = nil, 0
	q.mu.Unlock()
	for _, r := range queued {
		if r.log != nil {
			q.log(*r.log)
		} else {
			q.report(r.progress)
		}
	}
}

// ReadProgress reads the parameters of a progress notification. The message of the report
// has no control characters and no secrets, like a log message. ok is false if the
// parameters are invalid, or if the token is not a number and so not from this client.
func ReadProgress(params []byte, redactor *Notifications) (token int64, p mcpvisor.Progress, ok bool) {
	err := jsonscan.EachMember(params, func(key string, value []byte) (err error) {
		switch key {
		case "progressToken":
			e := Envelope{ID: value}
			if token, ok = e.NumericID(); !ok {
				return errors.New("the progress token is not a number")
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
