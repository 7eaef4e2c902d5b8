package facade_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
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
			require.ErrorContains(t, err, map[string]string{"call": "CallToolRaw", "read": "ReadResourceRaw", "prompt": "GetPromptRaw"}[method]+" returns it undecoded")
		}
	}
}

// A result of another type than complete is refused, whatever its other members are.
func TestResultType_other_than_complete(t *testing.T) {
	for raw, good := range map[string]bool{
		`{"content":[{"type":"text","text":"x"}],"resultType":"complete"}`:                true,
		`{"content":[{"type":"text","text":"x"}]}`:                                        true,
		`{"content":[{"type":"text","text":"x"}],"resultType":null}`:                      true,
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"resultType":"t"}}`: true,
		`{"content":[{"type":"text","text":"x"}],"resultType":"other"}`:                   false,
		`{"resultType":"task","content":[{"type":"text","text":"x"}]}`:                    false,
		`{"\u0072esultType":"task","content":[]}`:                                         false,
		`{"content":[],"resultType":7}`:                                                   false,
		`{"content":[],"resultType":""}`:                                                  false,
	} {
		c := registered(t, mcpvisor.ServerSpec{Name: "m", InMemory: rawAnswer("tools/call", raw)})
		r, err := c.CallTool(t.Context(), "m/x", nil)
		if good {
			require.NoError(t, err, raw)
			continue
		}
		require.Nil(t, r)
		require.ErrorIs(t, err, mcpvisor.ErrProtocol, raw)
		require.ErrorContains(t, err, "resultType")
		verbatim, err := c.CallToolRaw(t.Context(), "m/x", nil)
		require.NoError(t, err)
		require.Equal(t, raw, string(verbatim))
	}
}

// Members that the go-sdk does not know survive, as with CallToolRaw.
func TestReadResourceRaw_and_GetPromptRaw_return_what_the_server_sent(t *testing.T) {
	const resource = `{"contents":[{"uri":"x:a","text":"t","later":{"a":[1]}}],"resultOf":9007199254740993}`
	const prompt = `{"messages":[{"role":"system","content":{"type":"video","data":7}}]}`
	var lines []string
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		switch method {
		case "resources/read":
			lines = append(lines, line)
			return resource
		case "prompts/get":
			lines = append(lines, line)
			return prompt
		}
		return ""
	})})
	raw, err := relay.Of(c).ReadResourceRaw(t.Context(), "s", "x:a")
	require.NoError(t, err)
	require.Equal(t, resource, string(raw))
	raw, err = relay.Of(c).GetPromptRaw(t.Context(), "s/p", map[string]string{"k": "v"}, facade.WithTimeout(time.Minute))
	require.NoError(t, err)
	require.Equal(t, prompt, string(raw))
	require.Contains(t, lines[0], `"uri":"x:a"`)
	require.Contains(t, lines[1], `"arguments":{"k":"v"}`)
	require.Contains(t, lines[1], `"name":"p"`)
	_, err = c.GetPrompt(t.Context(), "s/p", nil)
	require.ErrorContains(t, err, "GetPromptRaw returns it undecoded")

	_, err = relay.Of(c).ReadResourceRaw(t.Context(), "other", "x:a")
	require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
	require.ErrorContains(t, err, "read other x:a")
	_, err = relay.Of(c).GetPromptRaw(t.Context(), "other/p", nil)
	require.ErrorContains(t, err, "prompt other/p")
	for _, name := range []string{"p", "/p", "s/", ""} {
		_, err = c.GetPrompt(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "write server/prompt")
		_, err = relay.Of(c).GetPromptRaw(t.Context(), name, nil)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
	records, _ := c.History().Calls(0)
	require.Len(t, records, 3)
	require.Equal(t, len(resource), records[0].ResultBytes)
}

func TestComplete(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
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
	})})
	got, err := c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	require.NoError(t, err)
	require.Equal(t, []string{"Ada", "Alan"}, got.Values)
	require.Equal(t, 7, got.Total)
	require.True(t, got.HasMore)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Template: "x:{y}", Argument: "y", Context: map[string]string{"z": "1"}})
	require.NoError(t, err)
	raw, err := relay.Of(c).CompleteRaw(t.Context(), "s", facade.CompletionRequest{Prompt: "greet", Argument: "name", Value: "A"})
	require.NoError(t, err)
	require.Equal(t, `{"completion":{"values":["Ada","Alan"],"total":7,"hasMore":true}}`, string(raw))
	_, err = relay.Of(c).CompleteRaw(t.Context(), "s", facade.CompletionRequest{})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	_, err = c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "other", Argument: "y"})
	require.ErrorIs(t, err, mcpvisor.ErrProtocol)
	for _, bad := range []facade.CompletionRequest{{}, {Prompt: "p"}, {Argument: "a"}, {Prompt: "p", Template: "t", Argument: "a"}} {
		_, err = c.Complete(t.Context(), "s", bad)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	}
}
