package streamable

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// releasePosted releases the memory that the outcome of a POST holds, now or when it
// arrives.
func releasePosted(posted <-chan sseAnswer, left *atomic.Bool) {
	left.Store(true)
	select {
	case a := <-posted:
		a.share.Release()
	default:
	}
}

// finishPostInBackground gives the POST of an answered request some time to end by
// itself, so that its connection can be reused. It reports true if it takes the
// outcome of the POST.
func (c *sseConn) finishPostInBackground(x *exchange, posted <-chan sseAnswer, left *atomic.Bool) (waits bool) {
	select {
	case p := <-posted:
		p.share.Release()
		return false
	default:
	}
	if !x.detach() {
		return false // the POST ends with the exchange
	}
	if !c.s.startTask() {
		x.finishDetached()
		return false
	}
	go func() {
		defer c.s.tasks.Done()
		defer releasePosted(posted, left)
		defer x.finishDetached()
		t := time.NewTimer(drainTimeout)
		defer t.Stop()
		select {
		case p := <-posted:
			p.share.Release()
		case <-t.C:
		}
	}()
	return true
}

// post POSTs one request. The server accepts it with a status of 2xx; some servers
// put the answer into the body.
func (c *sseConn) post(x *exchange, id int64, body []byte, header http.Header) (a sseAnswer) {
	s := c.s
	share := s.exchanges.buffer.Share() // the share of the exchange belongs to the caller
	reserve := func(bytes int) bool { return share.Grow(x.ctx, nil, bytes) == nil }
	defer func() { a.share.TakeOver(&share) }()
	resp, f := x.post(s.endpoint, body, header)
	if f != nil {
		return sseAnswer{err: f}
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		got, _, f := s.readRefusal(resp, id, endpoint.StreamSession, reserve)
		return sseAnswer{reply: got, err: f}
	}
	text, _ := s.errorBody(resp, id, reserve)
	text = bytes.TrimSpace(text)
	if endpoint.IsHTML(resp.Header.Get("Content-Type"), nil) && endpoint.IsHTML("", text) {
		return sseAnswer{err: s.endpoint.HTMLReply(resp.StatusCode)}
	}
	if env, ok := jsonrpc.ScanEnvelope(text); ok && env.IsResponse() {
		got, found, f := s.handleMessage(text, id, true)
		if found || f != nil {
			return sseAnswer{reply: got, err: f}
		}
	}
	return sseAnswer{}
}
