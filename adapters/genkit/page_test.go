package genkit_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	gk "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/adapters/genkit"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The page has these lines.
func generate(ctx context.Context, client *facade.Client, g *gk.Genkit, model ai.Model, prompt string) (*ai.ModelResponse, error) {
	var tools []ai.ToolRef
	for _, tool := range genkit.Tools(client) {
		tools = append(tools, tool)
	}
	response, err := gk.Generate(ctx, g, ai.WithModel(model), ai.WithPrompt(prompt), ai.WithTools(tools...))
	return response, err
}

// TestPage: the lines of docs/frameworks.md are those above.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	require.NoError(t, err)
	code, err := os.ReadFile("page_test.go")
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^```go genkit\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, pieces, 1)
	require.Contains(t, strings.ReplaceAll(string(code), "\n\t", "\n"), "\n"+pieces[0][1])
}
