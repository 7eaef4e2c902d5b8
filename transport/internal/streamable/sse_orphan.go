package streamable

import "github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"

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

// receiveOrphan handles an error without an id; see jsonrpc/remarks.go. It answers the
// one request that waits. If several wait, or if the error may be about another message
// that was POSTed later, the error is recorded.
//
// The rest differs from the pipe session: only here the order of POSTs shows whether
// the error may be about a later message.
func (c *sseConn) receiveOrphan(text []byte, env *jsonrpc.Envelope) {
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
