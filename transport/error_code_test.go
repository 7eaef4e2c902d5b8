package transport

import (
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

// An internal error may be temporary; an unknown method is not.
func TestUnsupported(t *testing.T) {
	for code, want := range map[int64]bool{sdkrpc.CodeMethodNotFound: true, sdkrpc.CodeInvalidParams: true, sdkrpc.CodeInternalError: false} {
		require.Equal(t, want, Unsupported(rpcFault(code)), code)
	}
}
