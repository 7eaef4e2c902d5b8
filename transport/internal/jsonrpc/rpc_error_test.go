package jsonrpc

import (
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// The message is cut and copied from the line. A code that is not an integer becomes part of
// the message.
func TestServerError(t *testing.T) {
	read := func(raw string) *sdkrpc.Error {
		line := []byte(raw)
		var rpc *sdkrpc.Error
		require.ErrorAs(t, ServerError(line), &rpc)
		for i := range line {
			line[i] = '#'
		}
		return rpc
	}
	rpc := read(`{"code":-32000,"message":"` + strings.Repeat("x", 2*transport.MaxErrorText) + `","data":{"k":1}}`)
	require.LessOrEqual(t, len(rpc.Message), transport.MaxErrorText)
	require.JSONEq(t, `{"k":1}`, string(rpc.Data))
	require.Equal(t, "E_BUSY: later", read(`{"code":"E_BUSY","message":"later"}`).Message)
	rpc = read(`{"code":1e300,"message":"later"}`)
	require.EqualValues(t, sdkrpc.CodeInternalError, rpc.Code)
	require.Equal(t, "1e300: later", rpc.Message)
	rpc = read(`{"code":null,"message":"later"}`)
	require.Zero(t, rpc.Code)
	require.Equal(t, "later", rpc.Message)
}

func TestNewSessionInfo_cuts_texts(t *testing.T) {
	long := "\x1b[1m" + strings.Repeat("x", 2*maxInstructions)
	info := NewSessionInfo(&mcp.InitializeResult{ProtocolVersion: LegacyVersion, Instructions: long, ServerInfo: &mcp.Implementation{Name: long, Version: long}}, nil)
	require.LessOrEqual(t, len(info.Instructions), maxInstructions)
	for _, text := range []string{info.ServerName, info.ServerVersion} {
		require.LessOrEqual(t, len(text), maxServerName)
		require.NotContains(t, text, "\x1b")
	}
}
