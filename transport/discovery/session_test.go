package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// fakeSession answers list requests as a test says. It has only the methods that
// discovery calls.
type fakeSession struct {
	transport.Session
	caps  *mcp.ServerCapabilities
	reply func(method, cursor string) (string, error)
	asked []string // method and parameters of each request
	cause *supervisor.Cause
}

func (s *fakeSession) Info() mcpvisor.SessionInfo { return mcpvisor.SessionInfo{Capabilities: s.caps} }

func (s *fakeSession) Cause() *supervisor.Cause { return s.cause }

// firstPage is the cursor that reply gets for a request without one.
const firstPage = "(first)"

func (s *fakeSession) Request(_ context.Context, r transport.Request) (json.RawMessage, error) {
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+string(r.Params)))
	var params struct{ Cursor *string }
	cursor := firstPage
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &params); err != nil || params.Cursor == nil {
			return nil, fmt.Errorf("unexpected parameters %s", r.Params)
		}
		cursor = *params.Cursor
	}
	text, err := s.reply(r.Method, cursor)
	return json.RawMessage(text), err
}

func everything() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, Prompts: &mcp.PromptCapabilities{}}
}

func onlyTools() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
}

// replies answers with pages, by "method?cursor" or by "method" for all of its pages. Other
// requests get an empty object.
func replies(pages map[string]string) func(method, cursor string) (string, error) {
	return func(method, cursor string) (string, error) {
		for _, key := range []string{method + "?" + cursor, method} {
			if text, ok := pages[key]; ok {
				return text, nil
			}
		}
		return `{}`, nil
	}
}

func rpcError(code int64) error {
	return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &jsonrpc.Error{Code: code, Message: "refused"}}
}

func discoverAll(t *testing.T, s *fakeSession, limits mcpvisor.Limits) (*catalog.Catalog, error) {
	t.Helper()
	limits = mcpvisor.ServerSpec{Limits: limits}.WithDefaults().Limits
	return Discover(t.Context(), s, "srv", limits)
}

func toolNames(c *catalog.Catalog) (names []string) {
	for _, tool := range c.Tools {
		names = append(names, tool.OriginalName)
	}
	return names
}

// warningTexts returns the warnings of a catalog, one on each line.
func warningTexts(c *catalog.Catalog) string {
	var lines []string
	for _, w := range c.Warnings {
		lines = append(lines, w.String())
	}
	return strings.Join(lines, "\n")
}
