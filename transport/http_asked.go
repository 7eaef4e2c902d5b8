package transport

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// answerTimeout bounds the POST of an answer of ours. A server that does not take
// them has a connection busy for each.
const answerTimeout = 30 * time.Second

// receiveMessage passes on a request or notification of the server's. call is the
// id of our request on whose way to an answer it came.
func (s *httpSession) receiveMessage(text []byte, env *envelope, call int64) {
	if s.onMessage != nil {
		if m, err := jsonrpc.DecodeMessage(text); err == nil {
			s.onMessage(m)
		}
	}
	switch {
	case isServerRequest(env):
		if !s.isModern() { // later servers have no requests
			s.admitRequest(text, env, call)
		}
	case string(env.method) == methodCancelled:
		if env.malformed || !s.asked.cancelled(env.params) {
			s.noise.junk.Add(1)
		}
	default:
		s.receiveNotification(text, env)
	}
}

// receiveNotification passes a notification on to the go-sdk.
func (s *httpSession) receiveNotification(text []byte, env *envelope) {
	if refuseBroad(env.params) != nil {
		s.noise.junk.Add(1)
		return
	}
	message, err := jsonrpc.DecodeMessage(text)
	r, _ := message.(*jsonrpc.Request)
	switch {
	case err != nil || r == nil || !wellFormed(r): // the go-sdk would end the session over it, or the process
		s.noise.junk.Add(1)
	case s.isModern(): // where the go-sdk has no stream open to read it from
		s.answers.heard(r)
	case !s.sdkStream.push(text):
		s.noise.dropped.Add(1)
	}
}

// admitRequest begins to serve a request of the server's, or drops it: to refuse
// it would take one more connection.
func (s *httpSession) admitRequest(text []byte, env *envelope, call int64) {
	switch s.asked.take(text, env, call) {
	case admitted:
	case malformedRequest, idInUse:
		s.noise.junk.Add(1)
	case noRoom:
		s.noise.dropped.Add(1)
	}
}

// reply sends an answer of ours.
func (s *httpSession) reply(line []byte) {
	select {
	case <-s.answers.met: // before that the server cannot tell whose answer it is
	case <-s.Dead():
		return
	}
	a := s.agreed.Load()
	h := s.sessionHeader(a)
	h["Content-Type"], h["Accept"] = headerJSON, headerBoth
	x := s.startExchange(s.ctx, answerTimeout)
	defer x.finish()
	_ = s.postMessage(x, line, h) // what follows from it is done
}
