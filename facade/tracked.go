package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// tracked follows one request of a caller from its start to its end, for the facts and
// for the observer. The goroutine of the caller owns it.
//
//	var q tracked
//	defer q.abandon()
//	… c.begin(ctx, &q, …) …
//	return q.end(err)
type tracked struct {
	c    *Client
	view *actors.View // the registration; nil before begin
	// listed: the server lists a tool or prompt of the name in record.Target.
	listed bool
	ended  bool
	record mcpvisor.CallRecord
	// observation is nil without an observer.
	observation *observation
}

// begin starts to track a request for a registration, before it waits for anything. It
// returns the context of the request.
func (c *Client) begin(ctx context.Context, q *tracked, v *actors.View, method, target string, listed bool) context.Context {
	q.c, q.view, q.listed = c, v, listed
	q.record.Method, q.record.Target = method, target
	if c.opts.observer != nil {
		return q.observe(ctx)
	}
	return ctx
}

// answered notes the result of the request.
func (q *tracked) answered(v *actors.View, result json.RawMessage) {
	q.view, q.record.Epoch, q.record.ResultBytes = v, v.Epoch, len(result)
	if q.record.Method == "tools/call" {
		q.record.ToolError = isToolError(result)
	}
}

// end records the end of the request and returns err. It does nothing if the request was
// for no registered server, but for counting that.
func (q *tracked) end(c *Client, err error) error {
	if q.view == nil {
		if err != nil {
			c.rt.RecordUnknownServer()
		}
		return err
	}
	if q.ended {
		return err
	}
	q.ended = true
	var failure *mcpvisor.Error
	if err != nil {
		failure = asError(err)
		q.record.Kind, q.record.Outcome = failure.Kind, failure.Outcome
		if failure.Epoch != 0 {
			q.record.Epoch = failure.Epoch
		}
	}
	if q.observation != nil {
		q.endObservation(failure)
	}
	c.rt.RecordCall(q.view, &q.record, q.listed)
	return err
}

// asError returns the error of ours in err.
func asError(err error) *mcpvisor.Error {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	return e
}

// errCallbackPanicked is the cause of a call whose Progress function has panicked.
var errCallbackPanicked = errors.New("a function of the caller panicked during the call")

// abandon ends the tracking of a request that ends with a panic of a function of the
// caller. Defer it.
func (q *tracked) abandon() {
	if q.view != nil && !q.ended {
		_ = q.end(q.c, &mcpvisor.Error{Server: q.view.Name, Gen: q.view.Gen, Epoch: q.view.Epoch,
			Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errCallbackPanicked})
	}
}

// isErrorMember is the member of a tool's result that marks a failure of the tool. In the
// text of a JSON string it cannot occur, because the quotes would be escaped.
var isErrorMember = []byte(`"isError"`)

// isToolError reports whether the result of a tool has isError. Most results do not have
// the member, or have it once and false, so they are not parsed.
func isToolError(result json.RawMessage) (failed bool) {
	at := bytes.Index(result, isErrorMember)
	if at < 0 {
		return false
	}
	rest := bytes.TrimLeft(result[at+len(isErrorMember):], " \t\r\n:")
	if bytes.HasPrefix(rest, []byte("false")) && !bytes.Contains(rest, isErrorMember) {
		return false
	}
	_ = jsonscan.EachMember(result, func(name string, value []byte) error {
		if name == "isError" {
			failed = string(value) == "true"
		}
		return nil
	})
	return failed
}
