package transport

import (
	"context"
	"encoding/json"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// An answer, also an error, proves that the server is alive. Other outcomes do not.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		err   error
		alive bool
	}{
		{nil, true},
		{rpcFault(sdkrpc.CodeMethodNotFound), true},
		{&mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeUnknown}, true}, // an error without an id
		{&mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown}, false},
		{&mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent}, false},
	} {
		l := &probedSession{err: c.err}
		require.Equal(t, c.alive, Probe(t.Context(), l) == nil, "%v", c.err)
		require.Equal(t, []string{"ping"}, l.methods)
	}
}

// probedSession answers each request with an error.
type probedSession struct {
	Session
	err     error
	methods []string // methods
}

func (s *probedSession) Info() mcpvisor.SessionInfo { return mcpvisor.SessionInfo{} }

func (s *probedSession) Request(_ context.Context, r Request) (json.RawMessage, error) {
	s.methods = append(s.methods, r.Method)
	return json.RawMessage(`{}`), s.err
}

// rpcFault is the error of a request that the server answered with a JSON-RPC error.
func rpcFault(code int64) error {
	return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &sdkrpc.Error{Code: code, Message: "refused"}}
}
