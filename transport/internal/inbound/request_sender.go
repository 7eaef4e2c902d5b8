package inbound

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// RequestSender sends the requests of one open session, whatever its transport is. All
// fields are set when the session opens and are constant afterwards. Safe for concurrent
// use.
type RequestSender struct {
	Modern    bool
	Handler   *Handler
	Handshake *jsonrpc.HandshakeWatch
	// Send sends a request once and returns its result.
	Send func(context.Context, transport.Request) (json.RawMessage, error)
	// Go runs check in a goroutine of the session, unless the session is ending.
	Go func(check func(context.Context))
	// Abort ends the session.
	Abort func(*supervisor.Cause)
}

// Request sends a request of the caller.
//
// A legacy request is sent once. Its outcome is observed, because a wrapper may have
// restarted the server, which then does not know its handshake. A modern request is
// repeated with the input that the server requires (2026-07-28, SEP-2322).
func (s *RequestSender) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	if !s.Modern {
		result, err := s.Send(ctx, r)
		if list := s.Handshake.Observe(r.Method, err); list != "" {
			s.Go(func(ctx context.Context) { s.checkHandshake(ctx, list) })
		}
		return result, err
	}
	began := time.Now()
	result, err := s.Send(ctx, r)
	if err == nil && NeedsInput(r.Method, result) {
		return s.Handler.ContinueWithInput(ctx, r, began, result, s.Send)
	}
	return result, err
}

// checkHandshake ends the session if the server does not know its handshake any more.
// list is the method of a list that the server has returned before.
func (s *RequestSender) checkHandshake(ctx context.Context, list string) {
	if cause := s.Handshake.Check(ctx, list, s.Send); cause != nil {
		s.Abort(cause)
	}
}
