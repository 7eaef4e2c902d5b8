package streamable

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reserve makes room for more of the reply, as long as the exchange lasts.
func (b *exchange) reserve(bytes int) bool { return b.share.Grow(b.ctx, nil, bytes) == nil }

// keep passes on what the reply of an exchange holds, as for [answer].
func (b *exchange) keep(r transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&b.share)
		return
	}
	b.share.Release()
}

// noRoomReply is the fault of a call whose answer was skipped.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	f := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	f.Kind, f.Hint = e.Kind, e.Hint
	return f
}

// reserveForEvents makes room for the events of a stream that carries more than one
// call. s is the stream's own share.
func (s *session) reserveForEvents(events *httpbody.EventReader, share *budget.Share) {
	events.Reserve = func(bytes int) bool { return jsonrpc.GrowShare(share, s.Dead(), bytes, s.endpoint.NoteReceived) }
	events.Release = share.Release
}
