package eino_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/adapters/eino"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The page has these lines.
func newAgent(ctx context.Context, client *facade.Client, model model.ToolCallingChatModel) (*react.Agent, error) {
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: eino.Tools(client)},
	})
	return agent, err
}

// TestPage: the lines of docs/frameworks.md are those above.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	code, err := os.ReadFile("page_test.go")
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^```go eino\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, pieces, 1)
	require.Contains(t, strings.ReplaceAll(string(code), "\n\t", "\n"), "\n"+pieces[0][1])
}
