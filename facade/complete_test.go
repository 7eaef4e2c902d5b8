package facade_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

func TestComplete(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		if method != "completion/complete" {
			return ""
		}
		switch {
		case strings.Contains(line, `"ref":{"name":"greet","type":"ref/prompt"}`) && strings.Contains(line, `"argument":{"name":"name","value":"A"}`):
			return `{"completion":{"values":["Ada","Alan"],"total":7,"hasMore":true}}`
		case strings.Contains(line, `"ref":{"type":"ref/resource","uri":"x:{y}"}`) && strings.Contains(line, `"context":{"arguments":{"z":"1"}}`):
			return `{"completion":{"values":[]}}`
		}
		return `{}`
	})}))
	got, err := c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	require.NoError(t, err)
	require.Equal(t, []string{"Ada", "Alan"}, got.Values)
	require.Equal(t, 7, got.Total)
	require.True(t, got.HasMore)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Template: "x:{y}", Argument: "y", Context: map[string]string{"z": "1"}})
	require.NoError(t, err)
	raw, err := c.CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	require.NoError(t, err)
	require.Equal(t, `{"completion":{"values":["Ada","Alan"],"total":7,"hasMore":true}}`, string(raw))
	_, err = c.CompleteRaw(t.Context(), "s", facade.CompletionRequest{})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "other", Argument: "y"})
	require.ErrorIs(t, err, mcpvisor.ErrProtocol)
	for _, bad := range []facade.CompletionRequest{{}, {Prompt: "p"}, {Argument: "a"}, {Prompt: "p", Template: "t", Argument: "a"}} {
		_, err = c.Complete(t.Context(), "s", bad)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
}
