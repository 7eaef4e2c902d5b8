package stdio

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// Large messages share Limits.MaxBufferBytes. The functions of this file are called by
// the goroutine that reads.

// reserveBuffer reserves memory for more of the current line. It reports false if the
// wait for memory took too long, or if the connection has ended.
func (c *conn) reserveBuffer(bytes int) bool {
	if c.share == nil {
		s := c.buffer.Share()
		c.share = &s
	}
	return jsonrpc.GrowShare(c.share, c.lifetime.Dead(), bytes, c.lastReceived.Note)
}

// freeLine releases what the last line has reserved, unless takeShare moved that to the
// answer.
func (c *conn) freeLine() {
	if c.share != nil {
		c.share.Release()
	}
}

// takeShare moves what the current line has reserved to the caller; nil if it reserved
// nothing.
func (c *conn) takeShare() *budget.Share {
	s := c.share
	c.share = nil
	c.in.reserved = 0
	return s
}

// failSkipped fails the request whose response was skipped for lack of memory.
func (c *conn) failSkipped(id int64) {
	if id < jsonrpc.FirstID {
		c.control.failRequest(id, jsonrpc.ErrNoRoom.Error())
		return
	}
	if p := c.takeAnswered(id); p != nil {
		p.answer <- answer{err: jsonrpc.NoRoomError()}
	}
}
