package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
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

// The message is cut and copied from the line. A code that is not an integer becomes part of
// the message.
func TestServerError(t *testing.T) {
	read := func(raw string) *sdkrpc.Error {
		line := []byte(raw)
		rpc := testutil.AsError[*sdkrpc.Error](t, ServerError(line))
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
	require.EqualValues(t, -32602, read(`{"code":-32602.0,"message":"later"}`).Code)
	require.EqualValues(t, -32001, read(`{"code":"-32001","message":"later"}`).Code)
	require.Contains(t, read(`{"code":-32000,"message":{"text":"later"}}`).Message, "later")
	require.Contains(t, read(`{"code":[],"message":["later"]}`).Message, "later")
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

// A usage has several lines, and the first one may be a mere heading.
func TestRemarks_keep_several_lines_of_a_text(t *testing.T) {
	var r Remarks
	for _, line := range []string{"USAGE", "  server [--port PORT] DIRECTORY", strings.Repeat("x", 4*StrayTaken), "more"} {
		r.AddStray([]byte(line), StrayLog, false)
	}
	text := r.StrayOutput(nil).Text
	require.True(t, strings.HasPrefix(text, "USAGE server [--port PORT] DIRECTORY xxx") || strings.HasPrefix(text, "USAGE   server [--port PORT] DIRECTORY xxx"), text)
	require.LessOrEqual(t, len(text), MaxStrayShown+len("…"))

	var other Remarks
	other.AddStray([]byte("Starting"), StrayLog, false)
	other.AddStray([]byte("Continue?"), "it asks a question", false)
	require.Equal(t, "Continue?", other.StrayOutput(nil).Text, "a text with a real reason counts")
}
