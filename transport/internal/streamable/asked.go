package streamable

import (
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// answerTimeout bounds the POST of an answer of ours. A server that does not take
// them has a connection busy for each.
const answerTimeout = 30 * time.Second

// receiveMessage passes on a request or notification of the server's. call is the
// id of our request on whose way to an answer it came.
func (s *session) receiveMessage(text []byte, env *jsonrpc.Envelope, call int64) {
	if s.onMessage != nil {
		if m, err := sdkrpc.DecodeMessage(text); err == nil {
			s.onMessage(m)
		}
	}
	switch {
	case inbound.IsRequest(env):
		if !s.isModern() { // later servers have no requests
			s.admitRequest(text, env, call)
		}
	case string(env.Method) == inbound.MethodCancelled:
		if env.Malformed || !s.asked.HandleCancelled(env.Params) {
			s.noise.Malformed.Add(1)
		}
	default:
		s.receiveNotification(text, env)
	}
}

// receiveNotification passes a notification on to the go-sdk.
func (s *session) receiveNotification(text []byte, env *jsonrpc.Envelope) {
	if inbound.CheckParams(env.Params) != nil {
		s.noise.Malformed.Add(1)
		return
	}
	message, err := sdkrpc.DecodeMessage(text)
	r, _ := message.(*sdkrpc.Request)
	switch {
	case err != nil || r == nil || !jsonrpc.WellFormed(r): // the go-sdk would end the session over it, or the process
		s.noise.Malformed.Add(1)
	case s.isModern(): // where the go-sdk has no stream open to read it from
		s.answers.HandleNotification(r)
	case !s.sdkStream.push(text):
		s.noise.Dropped.Add(1)
	}
}

// admitRequest begins to serve a request of the server's, or drops it: to refuse
// it would take one more connection.
func (s *session) admitRequest(text []byte, env *jsonrpc.Envelope, call int64) {
	switch s.asked.Accept(text, env, call) {
	case inbound.Accepted:
	case inbound.MalformedRequest, inbound.IDInUse:
		s.noise.Malformed.Add(1)
	case inbound.NoRoom:
		s.noise.Dropped.Add(1)
	}
}

// reply sends an answer of ours.
func (s *session) reply(line []byte) {
	select {
	case <-s.answers.Ready(): // before that the server cannot tell whose answer it is
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
