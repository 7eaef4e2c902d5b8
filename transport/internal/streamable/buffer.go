package streamable

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reserve reserves memory for more of the reply. It reports false if the exchange ends
// first.
func (x *exchange) reserve(bytes int) bool { return x.share.Grow(x.ctx, nil, bytes) == nil }

// keep hands the memory that the reply holds to the caller, if that asked for it and
// the call succeeded. Otherwise it releases that memory.
func (x *exchange) keep(r transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&x.share)
		return
	}
	x.share.Release()
}

// noRoomReply is the error of a call whose answer was skipped for lack of memory.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	f := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	f.Kind, f.Hint = e.Kind, e.Hint
	return f
}

// reserveForEvents makes the reader of a stream that carries several calls reserve
// memory for its large events. share belongs to the stream.
func (s *session) reserveForEvents(events *httpbody.EventReader, share *budget.Share) {
	events.Reserve = func(bytes int) bool { return jsonrpc.GrowShare(share, s.Dead(), bytes, s.endpoint.NoteReceived) }
	events.Release = share.Release
}
