package transport

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/messages"
)

// Probe asks a session's server for a sign of life: ping where the protocol
// has it, server/discover since 2026-07-28 removed it. Any JSON-RPC answer is
// a sign of life, an error included.
func Probe(ctx context.Context, s Session) error {
	method := "ping"
	if s.Info().Era == messages.EraModern {
		method = "server/discover"
	}
	_, err := s.Request(ctx, Request{Method: method})
	var e *messages.Error
	if errors.As(err, &e) && e.Outcome == messages.Answered {
		return nil
	}
	return err
}

// rpcCode is the code of a JSON-RPC error, if err is one.
func rpcCode(err error) (int64, bool) {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return rpc.Code, true
	}
	return 0, false
}
