package streamable

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reserveBuffer reserves memory for more bytes of the reply, and blocks until they are
// available. It reports false if the exchange ends first.
func (x *exchange) reserveBuffer(bytes int) bool { return x.share.Grow(x.ctx, nil, bytes) == nil }

// handOverBuffer ends the reservation of a call. If the call succeeded and the caller has
// set Held, the caller becomes the owner of the reservation. Otherwise it is released.
func (x *exchange) handOverBuffer(r transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&x.share)
		return
	}
	x.share.Release()
}

// noRoomReply returns the error of a call whose answer was skipped for lack of memory.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	httpErr := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	httpErr.Kind, httpErr.Hint = e.Kind, e.Hint
	return httpErr
}

// reserveForEvents makes the reader of an event stream reserve memory for its large
// events in share. It is for streams that serve the whole session; the stream of one call
// uses the share of its exchange. The goroutine that reads the stream owns share.
func (s *session) reserveForEvents(events *httpbody.EventReader, share *budget.Share) {
	events.Reserve = func(bytes int) bool { return jsonrpc.GrowShare(share, s.Dead(), bytes, s.endpoint.NoteReceived) }
	events.Release = share.Release
}
