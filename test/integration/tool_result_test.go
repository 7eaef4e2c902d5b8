//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
)

// textOf returns the text of the first content block; empty if the result has none.
func textOf(res *mcp.CallToolResult) string {
	if res == nil || len(res.Content) == 0 {
		return ""
	}
	text, _ := res.Content[0].(*mcp.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}

// identity is the answer of the tool pid: the process and the incarnation that
// answered.
type identity struct {
	PID      int    `json:"pid"`
	Instance string `json:"instance"`
	Start    int    `json:"start"`
}

func identityOf(res *mcp.CallToolResult) (id identity, err error) {
	return id, json.Unmarshal([]byte(textOf(res)), &id)
}

// pause keeps a loop from spinning. No assertion depends on how long it takes.
func pause(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }

// isAny reports whether err matches one of the sentinels.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}
