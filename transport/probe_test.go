package transport

import (
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestProbe: any answer is a sign of life, and only an answer.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		err   error
		alive bool
	}{
		{nil, true},
		{rpcFault(sdkrpc.CodeMethodNotFound), true},
		{&mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown}, false},
		{&mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent}, false},
	} {
		l := &lister{Lifetime: NewLifetime(), reply: func(string, string) (string, error) { return `{}`, c.err }}
		require.Equal(t, c.alive, Probe(t.Context(), l) == nil, "%v", c.err)
		require.Equal(t, []string{"ping"}, l.asked)
	}
}
