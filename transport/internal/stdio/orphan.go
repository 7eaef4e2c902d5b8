package stdio

import (
	"fmt"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// An error without an id answers a request whose id the server could not read
// (JSON-RPC 2.0, 5): it could not parse the line, or did not accept the message.

// orphaned gives an error without an id to the one request in flight. If there
// are more, or it may be about a notification of ours, it is logged, and kept
// for the errors of requests that time out.
func (w *wire) orphaned(env *jsonrpc.Envelope) {
	failed := jsonrpc.ServerError(w.redactor.JSON(env.Error))
	if code, ok := transport.ErrorCode(failed); ok && code != sdkrpc.CodeMethodNotFound && w.failOnly(failed) {
		return
	}
	w.noise.Unmatched.Add(1)
	text := display.Shorten(display.Line(fmt.Sprint(failed.Cause)), jsonrpc.MaxErrorText)
	w.remarks.AddOrphan(text)
	if w.asked.Handler != nil && w.orphans.Allow() {
		w.asked.Handler.Log.Warn().Str("error", text).Msg("the server sent an error that names no request")
	}
}

// failOnly fails the one request in flight, on either lane. It reports false if
// no request is in flight, or more than one.
func (w *wire) failOnly(why *mcpvisor.Error) bool {
	waiting := w.control.waitingIDs()
	w.table.Mu.Lock()
	p, calls := w.onlyLocked()
	if len(waiting)+calls != 1 {
		w.table.Mu.Unlock()
		return false
	}
	if p != nil {
		delete(w.table.Open, p.entry.ID)
		w.table.Mu.Unlock()
		p.answer <- answer{err: why}
		return true
	}
	w.table.Mu.Unlock()
	return w.control.failWith(waiting[0], why.Cause)
}

// onlyLocked is the request of the call lane that is in flight, if there is one,
// and how many there are. A stream that stays open is no request that waits,
// unless there is no other.
func (w *wire) onlyLocked() (only *pending, count int) {
	var stream *pending
	streams := 0
	for _, e := range w.table.Open {
		p := e.Owner.(*pending)
		switch {
		case p.state == queued:
		case p.stream:
			stream = p
			streams++
		default:
			only = p
			count++
		}
	}
	if count == 0 {
		return stream, streams
	}
	return only, count
}
