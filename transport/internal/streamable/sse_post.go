package streamable

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// releasePosted releases the memory of the outcome of a POST that no goroutine receives.
// If the outcome has not arrived, the goroutine of the POST sees abandoned and releases it.
func releasePosted(posted <-chan sseAnswer, abandoned *atomic.Bool) {
	abandoned.Store(true)
	select {
	case a := <-posted:
		a.share.Release()
	default:
	}
}

// finishPostInBackground waits in the background for the end of the POST of an answered
// request, at most drainTimeout, so that the connection can be reused. It reports true if
// it receives the outcome of the POST.
func (c *sseConn) finishPostInBackground(x *exchange, posted <-chan sseAnswer, abandoned *atomic.Bool) (handedOver bool) {
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
	c.s.drains.add(x)
	go func() {
		defer c.s.tasks.Done()
		defer releasePosted(posted, abandoned)
		defer x.finishDetached()
		defer c.s.drains.remove(x)
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

// postRequest POSTs one request. A server accepts it with a 2xx status; some servers put
// the answer into the body of that response.
func (c *sseConn) postRequest(x *exchange, id int64, body []byte, header http.Header) (a sseAnswer) {
	s := c.s
	memory := &replyMemory{ctx: x.ctx, share: s.exchanges.buffer.Share()} // another goroutine owns that of the exchange
	defer func() { a.share.TakeOver(&memory.share) }()
	resp, httpErr := x.post(s.endpoint, body, header)
	if httpErr != nil {
		return sseAnswer{err: httpErr}
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		got, _, httpErr := s.readErrorStatus(resp, id, endpoint.StreamSession, memory)
		return sseAnswer{reply: got, err: httpErr}
	}
	text, _, _ := s.errorBody(resp, resp.Body, id, memory)
	text = bytes.TrimSpace(text)
	if endpoint.IsHTML(resp.Header.Get("Content-Type"), nil) && endpoint.IsHTML("", text) {
		return sseAnswer{err: s.endpoint.HTMLReply(resp.StatusCode)}
	}
	if env, ok := jsonrpc.ScanEnvelope(text); ok && env.IsResponse() {
		got, found, httpErr := s.handleMessage(text, id, true)
		if found || httpErr != nil {
			return sseAnswer{reply: got, err: httpErr}
		}
	}
	return sseAnswer{}
}
