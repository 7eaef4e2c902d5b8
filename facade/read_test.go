package facade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// The hint about CallToolRaw is given for tools only.
func TestReadResource_unreadable_result_hint(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		if method == "resources/read" {
			return `{"contents":[null]}`
		}
		return ""
	})}))
	_, err := c.ReadResource(t.Context(), "s", "file:///a")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "CallToolRaw", "that calls tools")
}
