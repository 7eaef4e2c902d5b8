package transport

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"
)

// dropPosted gives back what the outcome of a POST holds, now or when it is here.
func dropPosted(posted <-chan sseAnswer, left *atomic.Bool) {
	left.Store(true)
	select {
	case a := <-posted:
		a.share.Release()
	default:
	}
}

// leavePost gives a POST that is still under way, although its answer is here,
// a while to end by itself, so that its connection can be used again. waits means
// that what comes of it is taken care of.
func (c *sseConn) leavePost(b *bond, posted <-chan sseAnswer, left *atomic.Bool) (waits bool) {
	select {
	case p := <-posted:
		p.share.Release()
		return false
	default:
	}
	if !b.lend() {
		return false // it ends with the exchange
	}
	if !c.s.enter() {
		b.finishLent()
		return false
	}
	go func() {
		defer c.s.work.Done()
		defer dropPosted(posted, left)
		defer b.finishLent()
		t := time.NewTimer(drainWait)
		defer t.Stop()
		select {
		case p := <-posted:
			p.share.Release()
		case <-t.C:
		}
	}()
	return true
}

// post POSTs one request. The server accepts it with a status of 2xx; some put
// the answer into the body.
func (c *sseConn) post(b *bond, id int64, body []byte, header http.Header) (a sseAnswer) {
	s := c.s
	share := s.bonds.buffer.Share() // b's own is the caller's
	reserve := func(bytes int) bool { return share.Grow(b, nil, bytes) == nil }
	defer func() { a.share.Take(&share) }()
	resp, f := s.endpoint.do(b, http.MethodPost, body, header)
	if f != nil {
		return sseAnswer{fault: f}
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		got, _, f := s.refusal(resp, id, streamSession, reserve)
		return sseAnswer{reply: got, fault: f}
	}
	text, _ := s.errorBody(resp, id, reserve)
	text = bytes.TrimSpace(text)
	if isHTML(resp.Header.Get("Content-Type"), nil) && isHTML("", text) {
		return sseAnswer{fault: s.endpoint.htmlReply(resp.StatusCode)}
	}
	if env, ok := scanEnvelope(text); ok && env.isResponse() {
		got, found, f := s.answerIn(text, id, true)
		if found || f != nil {
			return sseAnswer{reply: got, fault: f}
		}
	}
	return sseAnswer{}
}
