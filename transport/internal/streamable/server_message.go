package streamable

import (
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// answerTimeout bounds the POST of an answer to a request of the server, because a server
// that does not accept answers keeps one connection busy for each.
const answerTimeout = 30 * time.Second

// receiveMessage handles a request or notification of the server. call is the id of the
// request on whose response the message arrived; noRequestID if it arrived on another
// stream.
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
			s.discarded.Malformed.Add(1)
		}
	default:
		s.receiveNotification(text, env)
	}
}

// receiveNotification passes a notification on to the go-sdk.
func (s *session) receiveNotification(text []byte, env *jsonrpc.Envelope) {
	if inbound.CheckParams(env.Params) != nil {
		s.discarded.Malformed.Add(1)
		return
	}
	message, err := sdkrpc.DecodeMessage(text)
	r, _ := message.(*sdkrpc.Request)
	switch {
	case err != nil || r == nil || !jsonrpc.WellFormed(r): // it would end the go-sdk's session, or make it panic
		s.discarded.Malformed.Add(1)
	case s.isModern(): // the go-sdk reads no stream on a modern session
		s.handler.HandleNotification(r)
	case !s.sdkStream.push(text):
		s.discarded.Dropped.Add(1)
	}
}

// admitRequest begins to serve a request of the server. A request that is not admitted is
// dropped and counted, and not answered, because an answer would need one more connection.
func (s *session) admitRequest(text []byte, env *jsonrpc.Envelope, call int64) {
	switch s.serverRequests.Accept(text, env, call) {
	case inbound.Accepted:
	case inbound.MalformedRequest, inbound.IDInUse:
		s.discarded.Malformed.Add(1)
	case inbound.NoRoom:
		s.discarded.Dropped.Add(1)
	}
}

// postReply sends the answer to a request of the server. It waits until the session is
// open, because the answer must carry the session id.
func (s *session) postReply(line []byte) {
	select {
	case <-s.handler.Ready():
	case <-s.Dead():
		return
	}
	a := s.agreed.Load()
	h := s.sessionHeader(a)
	h["Content-Type"], h["Accept"] = headerJSON, headerBoth
	x := s.startExchange(s.ctx, answerTimeout)
	defer x.finish()
	_ = s.postMessage(x, line, h) // postMessage ends the session if the error requires it
}
