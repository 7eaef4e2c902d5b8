package facade_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A result with a null entry is refused: its reader would dereference nil.
func TestResults_with_null_entries(t *testing.T) {
	c := newClient(t)
	var answer atomic.Value
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		switch method {
		case "tools/call", "resources/read", "prompts/get":
			return answer.Load().(string)
		}
		return ""
	})}))
	for method, answers := range map[string][]string{
		"call": {`null`, `[]`, `"text"`, `{"content":[null]}`,
			`{"content":[{"type":"resource","resource":null}]}`, `{"content":[{"type":"resource"}]}`},
		"read": {`null`, `[]`, `{"contents":[null]}`},
		"prompt": {`null`, `[]`, `{"messages":[null]}`, `{"messages":[{"role":"user"}]}`,
			`{"messages":[{"role":"user","content":{"type":"resource"}}]}`},
	} {
		for _, text := range answers {
			answer.Store(text)
			var err error
			switch method {
			case "call":
				_, err = c.CallTool(t.Context(), "s/x", nil)
			case "read":
				_, err = c.ReadResource(t.Context(), "s", "x:y")
			case "prompt":
				_, err = c.GetPrompt(t.Context(), "s/p", nil)
			}
			require.ErrorIs(t, err, mcpvisor.ErrProtocol, "%s: %s", method, text)
		}
	}
}
