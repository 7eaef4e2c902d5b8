package facade

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestModelErrorResult_for_every_kind(t *testing.T) {
	correctable := map[mcpvisor.ErrorKind]bool{mcpvisor.ErrUnknownServer: true, mcpvisor.ErrUnknownTool: true, mcpvisor.ErrInvalid: true, mcpvisor.ErrDenied: true}
	for _, kind := range mcpvisor.ErrorKinds() {
		for _, outcome := range []mcpvisor.Outcome{mcpvisor.OutcomeNotSent, mcpvisor.OutcomeUnknown, mcpvisor.OutcomeAnswered} {
			e := &mcpvisor.Error{Kind: kind, Outcome: outcome, Cause: errors.New("because"), Hint: "hint for a programmer",
				Stderr: []string{"line-of-stderr"}, RetryAfter: time.Second}
			res := modelErrorResult("fs/raed", e)
			require.True(t, res.IsError)
			text := res.Content[0].(*mcp.TextContent).Text
			f := res.StructuredContent.(ModelError)
			require.Equal(t, string(kind), f.Code)
			require.Equal(t, text, f.Message)
			require.Equal(t, e.Retryable(), f.Retryable)
			require.NotContains(t, text, "line-of-stderr", kind)
			require.NotContains(t, text, "programmer", kind)
			if !correctable[kind] {
				require.NotContains(t, text, "because", kind)
			}
			require.Contains(t, text, "fs/raed", kind)
			require.Equal(t, !correctable[kind], strings.HasPrefix(text, "Internal Error: "), "%s: %s", kind, text)
			if !correctable[kind] && kind != mcpvisor.ErrRPC {
				require.Equal(t, outcome == mcpvisor.OutcomeUnknown, strings.Contains(text, "Whether it had an effect is not known; check before you repeat it."), "%s %s: %s", kind, outcome, text)
			}
		}
	}
	require.Contains(t, modelErrorResult("fs/raed", &mcpvisor.Error{Kind: mcpvisor.ErrUnknownTool, Outcome: mcpvisor.OutcomeNotSent}, "fs/read").Content[0].(*mcp.TextContent).Text,
		"There is no tool fs/raed. Did you mean fs/read?")
}

func TestModelText_for_RPC_errors(t *testing.T) {
	text := func(code int64, message string) string {
		return modelErrorResult("fs/read", &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered,
			Cause: &jsonrpc.Error{Code: code, Message: message}}).Content[0].(*mcp.TextContent).Text
	}
	require.Equal(t, "fs/read refused the call: path is missing", text(-32602, "path is missing"))
	require.Equal(t, "fs/read refused the call: 2 errors:\n path is missing\n at least one of a, b", text(-32602, "2 errors:\n path is missing\n at least one of a, b"))
	for message, want := range map[string]string{
		"disk full": "disk full",
		"Error: x is undefined\n    at handle (/srv/app/index.js:10:5)\n    at next": "Error: x is undefined",
		"Traceback (most recent call last):\n  File \"/srv/a.py\"":                   "its server answered with an error.",
		"panic: nil\n\ngoroutine 7 [running]:\nmain.main()\n\t/srv/main.go:3":        "panic: nil",
		"no\x1b[8m \U000E0041such file":                                              "no[8m such file",
		"":                                                                           "its server answered with an error.",
	} {
		require.Equal(t, "Internal Error: fs/read failed: "+want, text(-32603, message))
	}
	require.Less(t, len(text(-32603, strings.Repeat("x", 1<<20))), 3000)
}
