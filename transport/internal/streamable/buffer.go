package streamable

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// replyMemory is the memory for one reply. It implements httpbody.Memory.
type replyMemory struct {
	ctx context.Context // of the exchange
	// share is the part of Limits.MaxBufferBytes that a large reply occupies.
	share budget.Share
}

// Reserve reserves memory for more bytes of the reply, and blocks until they are available.
// It reports false if the exchange ends first.
func (m *replyMemory) Reserve(bytes int) bool { return m.share.Grow(m.ctx, nil, bytes) == nil }

// Release releases the memory of the reply.
func (m *replyMemory) Release() { m.share.Release() }

// handOverBuffer ends the reservation of a call. If the call succeeded and the caller has
// set Held, the caller becomes the owner of the reservation. Otherwise it is released.
func (x *exchange) handOverBuffer(r transport.Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&x.memory.share)
		return
	}
	x.memory.share.Release()
}

// noRoomReply returns the error of a call whose answer was skipped for lack of memory.
func noRoomReply() *endpoint.HTTPError {
	e := jsonrpc.NoRoomError()
	httpErr := endpoint.InvalidReply(e.Outcome, "%v", e.Cause)
	httpErr.Kind, httpErr.Hint = e.Kind, e.Hint
	return httpErr
}

// streamMemory is the memory for the large events of a stream that serves the whole session;
// the stream of one call uses the memory of its exchange. It implements httpbody.Memory. The
// goroutine that reads the stream owns share.
type streamMemory struct {
	s     *session
	share *budget.Share
}

// Reserve reserves memory for more bytes of an event. It reports false if there is no room
// in time, or if the session ends.
func (m streamMemory) Reserve(bytes int) bool {
	return jsonrpc.GrowShare(m.share, m.s.Dead(), bytes, m.s.endpoint.NoteReceived)
}

// Release releases the memory of the event.
func (m streamMemory) Release() { m.share.Release() }
