package langchaingo_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"

	"github.com/mcpvisor/mcpvisor/adapters/langchaingo"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The page has these lines.
func run(ctx context.Context, client *facade.Client, model llms.Model, prompt string) (string, error) {
	agent := agents.NewOpenAIFunctionsAgent(model, langchaingo.Tools(client))
	answer, err := chains.Run(ctx, agents.NewExecutor(agent), prompt)
	return answer, err
}

// TestPage: the lines of docs/frameworks.md are those above.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	code, err := os.ReadFile("page_test.go")
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^```go langchaingo\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, pieces, 1)
	require.Contains(t, strings.ReplaceAll(string(code), "\n\t", "\n"), "\n"+pieces[0][1])
}
