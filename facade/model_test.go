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
	correctable := map[mcpvisor.ErrorKind]bool{mcpvisor.KindUnknownServer: true, mcpvisor.KindUnknownTool: true, mcpvisor.KindInvalid: true}
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
			require.Contains(t, text, "fs/raed", kind)
			require.Equal(t, !correctable[kind], strings.HasPrefix(text, "Internal Error: "), "%s: %s", kind, text)
			if outcome == mcpvisor.OutcomeUnknown && kind == mcpvisor.KindCrashed {
				require.Contains(t, text, "check before you repeat")
			}
		}
	}
	require.Contains(t, modelErrorResult("fs/raed", &mcpvisor.Error{Kind: mcpvisor.KindUnknownTool}, "fs/read").Content[0].(*mcp.TextContent).Text,
		"There is no tool fs/raed. Did you mean fs/read?")
}

func TestModelText_for_RPC_errors(t *testing.T) {
	text := func(code int64) string {
		return modelText("fs/read", &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &jsonrpc.Error{Code: code, Message: "path is missing"}}, nil)
	}
	require.Equal(t, "fs/read refused the call: path is missing", text(-32602))
	require.True(t, strings.HasPrefix(text(-32603), "Internal Error: "))
}
