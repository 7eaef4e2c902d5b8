//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textOf is the text of a result; empty without one.
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

// identity is what the tool pid tells: who has answered.
type identity struct {
	PID      int    `json:"pid"`
	Instance string `json:"instance"`
	Start    int    `json:"start"`
}

func identityOf(res *mcp.CallToolResult) (id identity, err error) {
	return id, json.Unmarshal([]byte(textOf(res)), &id)
}

// pause keeps a load from spinning. Nothing depends on how long it takes.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// isAny reports whether err is one of these.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}
