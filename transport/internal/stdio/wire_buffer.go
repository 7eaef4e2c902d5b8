package stdio

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reserve makes room for more of the line that is being read. It reports false if
// there is no room in time, or if the session has died.
func (w *wire) reserve(bytes int) bool {
	if w.share == nil {
		s := w.buffer.Share()
		w.share = &s
	}
	return jsonrpc.GrowShare(w.share, w.Dead(), bytes, w.heard.Note)
}

// freeLine releases what the last line has reserved, unless its answer took it.
func (w *wire) freeLine() {
	if w.share != nil {
		w.share.Release()
	}
}

// takeShare is what the current line has reserved; nil if that is nothing.
func (w *wire) takeShare() *budget.Share {
	s := w.share
	w.share = nil
	w.in.reserved = 0
	return s
}

// skipped fails the request whose answer was skipped for want of room.
func (w *wire) skipped(id int64) {
	if id < jsonrpc.FirstID {
		w.control.fail(id, jsonrpc.ErrNoRoom.Error())
		return
	}
	if p := w.take(id); p != nil {
		p.answer <- answer{err: jsonrpc.NoRoomError()}
	}
}
