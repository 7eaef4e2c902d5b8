package jsonrpc

import (
	"context"
	"fmt"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Calls share the cause of the end of a session, and the callers of OpenCause complete the
// result. So OpenCause must return a copy.
func TestOpenCause_returns_a_copy(t *testing.T) {
	died := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 1", Stderr: []string{"boom"}}
	for name, got := range map[string]*supervisor.Cause{
		"of_the_death": OpenCause(context.Background(), context.Canceled, died),
		"in_the_error": OpenCause(context.Background(), fmt.Errorf("initialize: %w", died), nil),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, died, got)
			got.Message, got.Stderr[0] = "changed", "changed"
			require.Equal(t, "exit status 1", died.Message)
			require.Equal(t, []string{"boom"}, died.Stderr)
		})
	}
}

// A fault that the session found in an answer is not reported as an error of the server.
func TestOpenCause_unusable_answer(t *testing.T) {
	err := fmt.Errorf("calling %q: %w", "initialize", &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: "the server wrote its answer over several lines"})
	require.Equal(t, "handshake failed: the server wrote its answer over several lines", OpenCause(t.Context(), err, nil).Message)
	err = &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: "no"}
	require.Equal(t, "server refused the handshake: no (code -32700)", OpenCause(t.Context(), err, nil).Message)
}
