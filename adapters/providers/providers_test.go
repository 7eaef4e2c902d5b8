package providers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"
)

// TestFunctions: the functions of the golden files survive the SDK's own type. What the
// type does not know would be missing afterwards, or among its extra fields.
func TestFunctions(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		eachFunction(t, "openai", func(t *testing.T, f []byte) any {
			// The type of chat completions around it is in the SDK's largest package.
			var tool struct {
				Type     string         `json:"type"`
				Function openAIFunction `json:"function"`
			}
			decodeStrict(t, f, &tool)
			require.Equal(t, "function", tool.Type)
			function := shared.FunctionDefinitionParam(tool.Function)
			require.NotEmpty(t, function.Name)
			require.NotEmpty(t, function.Parameters)
			return map[string]any{"type": tool.Type, "function": function}
		})
	})
	t.Run("openai-responses", func(t *testing.T) {
		eachFunction(t, "openai-responses", func(t *testing.T, f []byte) any {
			var tool responsesFunction
			decodeStrict(t, f, &tool)
			require.True(t, tool.Strict.Valid())
			require.False(t, tool.Strict.Value)
			return responses.ToolUnionParam{OfFunction: (*responses.FunctionToolParam)(&tool)}
		})
	})
	t.Run("anthropic", func(t *testing.T) {
		eachFunction(t, "anthropic", func(t *testing.T, f []byte) any {
			var tool anthropicTool
			decodeStrict(t, f, &tool)
			require.NotEmpty(t, tool.Name)
			require.NotNil(t, tool.InputSchema.Properties)
			return anthropic.ToolUnionParam{OfTool: (*anthropic.ToolParam)(&tool)}
		})
	})
	t.Run("gemini", func(t *testing.T) {
		eachFunction(t, "gemini", func(t *testing.T, f []byte) any {
			var declaration genai.FunctionDeclaration
			decodeStrict(t, f, &declaration)
			require.NotNil(t, declaration.ParametersJsonSchema)
			return declaration
		})
	})
	t.Run("ollama", func(t *testing.T) {
		eachFunction(t, "ollama", func(t *testing.T, f []byte) any {
			var tool api.Tool
			decodeStrict(t, f, &tool)
			require.Equal(t, "object", tool.Function.Parameters.Type)
			return tool
		})
	})
}

// The SDKs' types without their own decoders, which accept unknown fields.
type (
	openAIFunction    shared.FunctionDefinitionParam
	responsesFunction responses.FunctionToolParam
	anthropicTool     anthropic.ToolParam
)

// decodeStrict fails for a field that the type does not have.
func decodeStrict(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(into), string(text))
}

// eachFunction compares each function of a golden file with what the SDK sends for it.
func eachFunction(t *testing.T, provider string, read func(t *testing.T, f []byte) any) {
	f, err := os.Open("../../schema/testdata/golden/" + provider + ".jsonl.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, 10<<20)
	n := 0
	for lines.Scan() {
		n++
		sent, err := json.Marshal(read(t, lines.Bytes()))
		require.NoError(t, err)
		require.JSONEq(t, lines.Text(), string(sent))
	}
	require.NoError(t, lines.Err())
	require.Greater(t, n, 500, "functions")
}

// TestFunctions_sees_what_a_type_does_not_know tests the check itself.
func TestFunctions_sees_what_a_type_does_not_know(t *testing.T) {
	for _, into := range []any{new(openAIFunction), new(responsesFunction), new(anthropicTool), new(genai.FunctionDeclaration), new(api.ToolFunction)} {
		d := json.NewDecoder(strings.NewReader(`{"name":"n","surplus":1}`))
		d.DisallowUnknownFields()
		require.ErrorContains(t, d.Decode(into), "surplus")
	}
	var tool api.Tool // its properties are decoded leniently, and compared afterwards
	require.NoError(t, json.Unmarshal([]byte(`{"function":{"parameters":{"properties":{"a":{"surplus":1}}}}}`), &tool))
	sent, err := json.Marshal(tool)
	require.NoError(t, err)
	require.NotContains(t, string(sent), "surplus")
}
