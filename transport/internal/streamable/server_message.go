package streamable

import (
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// answerTimeout bounds the POST of an answer to a request of the server. A server
// that does not accept answers keeps one connection busy for each.
const answerTimeout = 30 * time.Second

// receiveMessage handles a request or notification of the server. call is the id of
// the client's request on whose response it came.
func (s *session) receiveMessage(text []byte, env *jsonrpc.Envelope, call int64) {
	if s.onMessage != nil {
		if m, err := sdkrpc.DecodeMessage(text); err == nil {
			s.onMessage(m)
		}
	}
	switch {
	case inbound.IsRequest(env):
		if !s.isModern() { // since 2026-07-28 servers send no requests
			s.admitRequest(text, env, call)
		}
	case string(env.Method) == inbound.MethodCancelled:
		if env.Malformed || !s.serverRequests.HandleCancelled(env.Params) {
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
	case err != nil || r == nil || !jsonrpc.WellFormed(r): // the go-sdk would end its session, or panic
		s.noise.Malformed.Add(1)
	case s.isModern(): // the go-sdk reads no stream on a modern session
		s.handler.HandleNotification(r)
	case !s.sdkStream.push(text):
		s.noise.Dropped.Add(1)
	}
}

// admitRequest begins to serve a request of the server. One that is not admitted is
// dropped and counted: to refuse it would take one more connection.
func (s *session) admitRequest(text []byte, env *jsonrpc.Envelope, call int64) {
	switch s.serverRequests.Accept(text, env, call) {
	case inbound.Accepted:
	case inbound.MalformedRequest, inbound.IDInUse:
		s.noise.Malformed.Add(1)
	case inbound.NoRoom:
		s.noise.Dropped.Add(1)
	}
}

// reply sends the answer to a request of the server.
func (s *session) reply(line []byte) {
	select {
	case <-s.handler.Ready(): // before that there is no session for the answer to name
	case <-s.Dead():
		return
	}
	a := s.agreed.Load()
	h := s.sessionHeader(a)
	h["Content-Type"], h["Accept"] = headerJSON, headerBoth
	x := s.startExchange(s.ctx, answerTimeout)
	defer x.finish()
	_ = s.postMessage(x, line, h) // postMessage draws the conclusions of a failure
}
