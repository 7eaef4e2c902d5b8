package streamable

import (
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// sseAnswer is the outcome of one request.
type sseAnswer struct {
	reply reply
	err   *endpoint.HTTPError
	// share is the part of Limits.MaxBufferBytes that the answer occupies. The receiver of
	// the answer releases it.
	share budget.Share
}

// isAccepted reports whether the server accepted the POST with a response that contains
// no answer.
func (a sseAnswer) isAccepted() bool {
	return a.err == nil && a.reply.result == nil && a.reply.errorMember == nil
}

// sseRequest is a request that waits for its answer. Its fields do not change.
type sseRequest struct {
	answer chan sseAnswer // has room for one answer
	// posted and remarks are how many messages had been POSTed, and how many errors without
	// an id had been received, when the request was added.
	posted, remarks uint64
}

// addRequest adds a request to the table of requests that wait for an answer.
func (c *sseConn) addRequest(id int64) *sseRequest {
	r := &sseRequest{answer: make(chan sseAnswer, 1), remarks: c.remarks.Count()}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.posted = c.postCount.Add(1)
	c.waiting[id] = r
	return r
}

// countPost counts a message that has no answer and is about to be POSTed.
func (s *session) countPost() {
	if c := s.sse.Load(); c != nil {
		c.postCount.Add(1)
	}
}

// deliver passes an answer to the request that waits for it. It reports false, and releases
// the memory of the answer, if no request with this id waits.
func (c *sseConn) deliver(id int64, a sseAnswer) bool {
	c.mu.Lock()
	r := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if r == nil {
		a.share.Release()
		return false
	}
	r.answer <- a // never blocks: the channel has room for one answer, and only the request in the table gets one
	return true
}

// stopWaiting removes a request from the table. delivered says that its answer was
// delivered before, and a is that answer. Call it once, and only if the answer was not
// received.
func (c *sseConn) stopWaiting(id int64, r *sseRequest) (a sseAnswer, delivered bool) {
	c.mu.Lock()
	delivered = c.waiting[id] == nil
	delete(c.waiting, id)
	c.mu.Unlock()
	if delivered {
		a = <-r.answer // deliver sends it right after it removed the request
	}
	return a, delivered
}

// onlyWaiting returns the id of the request that waits, if exactly one does. If last is
// true, it returns the id only if no message was POSTed after that request.
func (c *sseConn) onlyWaiting(last bool) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) != 1 {
		return 0, false
	}
	for id, r := range c.waiting {
		return id, !last || r.posted == c.postCount.Load()
	}
	return 0, false
}

// receiveErrorWithoutID handles an error without an id; see jsonrpc/remarks.go. The error
// is the answer to the request that waits, if exactly one waits and no other message was
// POSTed after it. Otherwise the error may be about another message, and is recorded to
// explain requests that time out.
func (c *sseConn) receiveErrorWithoutID(text []byte, env *jsonrpc.Envelope) {
	failed := jsonrpc.ServerError(c.s.endpoint.CleanJSON(env.Error))
	if jsonrpc.MayFailRequest(failed) {
		if id, only := c.onlyWaiting(true); only && c.deliver(id, c.answerOf(text, env)) {
			return
		}
	}
	if text, log := c.remarks.AddOrphan(failed, &c.s.discarded); log {
		c.s.log.Warn().Str("error", text).Msg("the server sent an error that names no request")
	}
}
