package inbound

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// formWithDefaults is a form of two fields.
var formWithDefaults = map[string]any{"type": "object", "properties": map[string]any{
	"a": map[string]any{"type": "integer", "default": 2.0}, "b": map[string]any{"type": "integer", "default": 3.0}}}

// A default replaces a missing field. A value of the user stays, also a zero value.
func TestApplyDefaults(t *testing.T) {
	content := map[string]any{"a": 0.0}
	require.Equal(t, map[string]any{"a": 0.0, "b": 3.0}, applyDefaults(content, formWithDefaults))
	require.Equal(t, map[string]any{"a": 0.0}, content, "the map of the handler is not changed")
}

// Only an accepted elicitation has content.
func TestHandler_elicit_content(t *testing.T) {
	h := newTestHandler()
	for action, want := range map[string]map[string]any{"accept": {"a": 1.0, "b": 3.0}, "decline": nil, "cancel": nil} {
		h.Pool.Handlers.ElicitForm = func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: action, Content: map[string]any{"a": 1.0}}, nil
		}
		res, err := h.elicit(t.Context(), &mcp.ElicitRequest{Params: &mcp.ElicitParams{RequestedSchema: formWithDefaults}})
		require.NoError(t, err)
		require.Equal(t, want, res.Content, action)
	}
}
