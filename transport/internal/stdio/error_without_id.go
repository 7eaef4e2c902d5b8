package stdio

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// receiveErrorWithoutID handles an error that names no request. It fails the request in
// flight if there is exactly one. If there are several, or if the error may be about a
// notification of this client, the error is recorded (see jsonrpc/remarks.go).
func (c *conn) receiveErrorWithoutID(env *jsonrpc.Envelope) {
	failed := jsonrpc.ServerError(c.redactor.JSON(env.Error))
	readable := failed.Kind == mcpvisor.KindRPC // if not, the line may be a torn log line
	if readable && jsonrpc.MayFailRequest(failed) && c.failOnlyRequest(failed) {
		return
	}
	if text, log := c.remarks.AddOrphan(failed, &c.discarded); log && c.serverRequests.Handler != nil {
		c.serverRequests.Handler.Pool.Log().Warn().Str("error", text).Msg("the server sent an error that names no request")
	}
}

// failOnlyRequest fails the request in flight, on either channel. It reports false if
// no request is in flight, or more than one.
func (c *conn) failOnlyRequest(why *mcpvisor.Error) bool {
	waiting := c.control.waitingIDs()
	c.table.Mu.Lock()
	p, calls := c.onlyInFlightLocked()
	if len(waiting)+calls != 1 {
		c.table.Mu.Unlock()
		return false
	}
	if p != nil {
		c.deleteLocked(p)
		c.table.Mu.Unlock()
		p.answer <- answer{err: why}
		return true
	}
	c.table.Mu.Unlock()
	return c.control.failRequestWith(waiting[0], why.Cause)
}

// onlyInFlightLocked counts the requests of the call channel that the server may have
// seen, and returns one of them. Streams stay open without a response, so they count
// only if there is no other request.
func (c *conn) onlyInFlightLocked() (only *pending, count int) {
	var stream *pending
	streams := 0
	for e := range c.table.Open.All() {
		p := e.Owner.(*pending)
		switch {
		case p.line.state == lineQueued:
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
