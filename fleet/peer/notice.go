package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	// maxNoticeStreams bounds the streams of notices that one node has open at another. They do not
	// count for MaxCalls.
	maxNoticeStreams = 16 << 10
	// maxNoticesAhead and maxNoticeBytesAhead bound the notices of one server that wait to be sent,
	// and maxNoticeBytesStream those of all servers on one stream of the link.
	maxNoticesAhead      = 256
	maxNoticeBytesAhead  = 256 << 10
	maxNoticeBytesStream = 4 << 20
)

// notice is a transport.Notice as it travels.
type notice struct {
	Kind string               `json:"kind"`
	URI  string               `json:"uri,omitempty"`
	Log  *mcpvisor.LogMessage `json:"log,omitempty"`
}

const (
	noticeOpen            = "open" // comes first
	noticeResourceUpdated = "resource_updated"
	noticeLog             = "log"
	noticeGap             = "gap"
)

// noticeFuncs are the functions of a caller that get notices.
type noticeFuncs struct {
	opened func()
	notify func(transport.Notice)
}

// Notices asks the node for the notices of a server that was placed with epoch: updated resources,
// log messages, and a gap where some were dropped because they were not sent or handled fast
// enough. It calls opened when the node has begun to pass notices on, and then notify, both in the
// goroutine of the caller. It returns when ctx ends, when the server moves, and when the lease of
// its node or the node itself ends. Then notices may have been lost.
//
// Errors: those of [Route], and ErrUnavailable with the cause [ErrUnsupported].
func (c *Client) Notices(ctx context.Context, server string, epoch uint64, opened func(), notify func(transport.Notice)) error {
	_, e := c.call(ctx, &call{method: methodNotices, server: server, epoch: epoch, notices: &noticeFuncs{opened, notify}}, nil)
	if e != nil {
		e.Op = "notices of " + server
		return e
	}
	return nil
}

// deliver calls the function for a notice. It ignores kinds of a later version.
func (f *noticeFuncs) deliver(body []byte) {
	var n notice
	if json.Unmarshal(body, &n) != nil {
		return
	}
	switch n.Kind {
	case noticeOpen:
		f.opened()
	case noticeResourceUpdated:
		f.notify(transport.Notice{Kind: transport.ResourceUpdated, URI: n.URI})
	case noticeLog:
		if n.Log != nil {
			f.notify(transport.Notice{Kind: transport.LogMessage, Log: n.Log})
		}
	case noticeGap:
		f.notify(transport.Notice{Kind: transport.Gap})
	}
}

// noticeStream passes the notices of one server on to one node.
type noticeStream struct {
	stream *serverStream
	number uint64
	server string
	epoch  uint64

	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil before it has begun
	ahead  int                     // notices that wait to be sent
	bytes  int                     // of these notices
	gap    bool                    // some were dropped, and the node was not told yet
}

func tooManyNotices(c *call) *mcpvisor.Error {
	return &mcpvisor.Error{Server: c.server, Epoch: c.epoch, Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: refusedRetryAfter,
		Cause: fmt.Errorf("the node has %d streams of notices", maxNoticeStreams)}
}

// sendNotices passes notices on until the call or the route ends.
func (s *serverStream) sendNotices(ctx context.Context, number uint64, c *call) error {
	if s.server.config.Notices == nil {
		return refused(c.server, c.epoch, ErrUnsupported)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	n := s.notices[number]
	s.mu.Unlock()
	n.mu.Lock()
	n.cancel = cancel
	n.mu.Unlock()
	err := s.server.config.Notices(ctx, Request{Node: s.node, Server: c.server, Epoch: c.epoch}, func() { n.send(notice{Kind: noticeOpen}) }, n.notify)
	if cause := context.Cause(ctx); errors.Is(cause, ErrMoved) || errors.Is(cause, ErrLeaseOver) {
		err = refused(c.server, c.epoch, cause)
	}
	return err
}

// checkNotices ends the streams of notices whose servers this node may no longer serve.
func (s *serverStream) checkNotices() {
	s.mu.Lock()
	all := make([]*noticeStream, 0, len(s.notices))
	for _, n := range s.notices {
		all = append(all, n)
	}
	s.mu.Unlock()
	for _, n := range all {
		n.check()
	}
}

// check ends the stream if this node may no longer serve the server. It sends a gap that had to wait for
// room.
func (n *noticeStream) check() {
	err := n.stream.server.config.Check(n.server, n.epoch)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && n.cancel != nil {
		n.cancel(err)
	}
	n.fillGapLocked()
}

func (n *noticeStream) notify(from transport.Notice) {
	switch from.Kind {
	case transport.ResourceUpdated:
		n.send(notice{Kind: noticeResourceUpdated, URI: from.URI})
	case transport.LogMessage:
		n.send(notice{Kind: noticeLog, Log: from.Log})
	case transport.Gap:
		n.send(notice{Kind: noticeGap})
	case transport.ListChanged, transport.Acknowledged, transport.TaskChanged: // lists: the catalog has them
	}
}

// send queues a notice, or drops it if too many wait. The gap is sent before later notices.
func (n *noticeStream) send(from notice) {
	body, err := json.Marshal(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || len(body) > framing.MaxChunk || from.Kind == noticeGap {
		n.gap = true
		body = nil
	}
	n.fillGapLocked()
	if body == nil {
		return
	}
	if n.gap || n.ahead >= maxNoticesAhead || n.bytes+len(body) > maxNoticeBytesAhead {
		n.gap = true
		return
	}
	n.queueLocked(body)
}

// fillGapLocked sends a gap, if there is one, once there is room for it.
func (n *noticeStream) fillGapLocked() {
	if n.gap && n.ahead < maxNoticesAhead/2 && n.bytes < maxNoticeBytesAhead/2 {
		n.gap = false
		n.queueLocked([]byte(`{"kind":"gap"}`))
	}
}

func (n *noticeStream) queueLocked(body []byte) {
	size := len(body)
	if n.stream.noticeBytes.Add(int64(size)) > maxNoticeBytesStream {
		n.stream.noticeBytes.Add(-int64(size))
		n.gap = true
		return
	}
	n.ahead++
	n.bytes += size
	if !n.stream.Add(&framing.Message{What: messageNotice, Call: n.number, Body: body, Done: func() { n.sent(size) }}) {
		n.stream.noticeBytes.Add(-int64(size))
	}
}

// sent records that a notice was sent, or given up.
func (n *noticeStream) sent(size int) {
	n.stream.noticeBytes.Add(-int64(size))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ahead--
	n.bytes -= size
	n.fillGapLocked()
}
