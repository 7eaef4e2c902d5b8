package jsonrpc

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// TestRejectedError: the error has the code at which the go-sdk fails one request only.
// It ends its session on any other error of a write.
func TestRejectedError(t *testing.T) {
	err := rejectedError(context.Canceled)
	require.ErrorIs(t, err, context.Canceled)
	code, ok := transport.ErrorCode(err)
	require.True(t, ok)
	require.Equal(t, int64(-32005), code)
	_, ok = transport.ErrorCode(json.Unmarshal([]byte("{"), new(int)))
	require.False(t, ok)
}
