package facade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The hint names the method for results of that sort.
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
	require.ErrorContains(t, err, "ReadResourceRaw returns it undecoded")
	require.NotContains(t, err.Error(), "CallToolRaw", "that calls tools")
}

// Members that the go-sdk does not know survive, as with CallToolRaw.
func TestReadResourceRaw_and_GetPromptRaw_return_what_the_server_sent(t *testing.T) {
	const resource = `{"contents":[{"uri":"x:a","text":"t","later":{"a":[1]}}],"resultOf":9007199254740993}`
	const prompt = `{"messages":[{"role":"system","content":{"type":"video","data":7}}]}`
	var lines []string
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		switch method {
		case "resources/read":
			lines = append(lines, line)
			return resource
		case "prompts/get":
			lines = append(lines, line)
			return prompt
		}
		return ""
	})}))
	raw, err := c.ReadResourceRaw(t.Context(), "s", "x:a")
	require.NoError(t, err)
	require.Equal(t, resource, string(raw))
	raw, err = c.GetPromptRaw(t.Context(), "s/p", map[string]string{"k": "v"}, facade.WithTimeout(time.Minute))
	require.NoError(t, err)
	require.Equal(t, prompt, string(raw))
	require.Contains(t, lines[0], `"uri":"x:a"`)
	require.Contains(t, lines[1], `"arguments":{"k":"v"}`)
	require.Contains(t, lines[1], `"name":"p"`)
	_, err = c.GetPrompt(t.Context(), "s/p", nil)
	require.ErrorContains(t, err, "GetPromptRaw returns it undecoded")

	_, err = c.ReadResourceRaw(t.Context(), "other", "x:a")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	require.ErrorContains(t, err, "read other x:a")
	_, err = c.GetPromptRaw(t.Context(), "other/p", nil)
	require.ErrorContains(t, err, "prompt other/p")
	for _, name := range []string{"p", "/p", "s/", ""} {
		_, err = c.GetPrompt(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "write server/prompt")
		_, err = c.GetPromptRaw(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
	records, _ := c.RecentCalls(0)
	require.Len(t, records, 3)
	require.Equal(t, len(resource), records[0].ResultBytes)
}
