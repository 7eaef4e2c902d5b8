package jsonrpc

import (
	"fmt"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

// What is wrong with an answer is not told as a refusal of the server's.
func TestSeveralLines_is_no_refusal(t *testing.T) {
	err := fmt.Errorf("calling %q: %w", "initialize", &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: "the server wrote its answer over several lines"})
	require.Equal(t, "handshake failed: the server wrote its answer over several lines", OpenCause(t.Context(), err, nil).Message)
	err = &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: "no"}
	require.Equal(t, "server refused the handshake: no (code -32700)", OpenCause(t.Context(), err, nil).Message)
}
