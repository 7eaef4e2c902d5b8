package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// The log level of a request is a word of the modern era.
func TestALegacyRequestHasNoLogLevel(t *testing.T) {
	for _, track := range []bool{false, true} {
		line := AppendRequest(nil, 7, transport.Request{Method: "m", LogLevel: "debug", Track: track}, nil)
		require.NotContains(t, string(line), "debug")
	}
}
