package facade_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Members of _meta reach the server with a call, and with a prompt, beside those of the client.
func TestWithMeta_reaches_the_server(t *testing.T) {
	meta := json.RawMessage(`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","com.example/n":{"deep":[1,null]},` +
		`"progressToken":"the caller's","io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/clientInfo":{"name":"the caller"}}`)
	onEveryMetaServer(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		result, err := c.CallTool(t.Context(), "s/meta", nil, facade.WithMeta(meta))
		require.NoError(t, err)
		prompt, err := c.GetPrompt(t.Context(), "s/meta", nil, facade.WithMeta(meta))
		require.NoError(t, err)
		for _, text := range []string{result.Content[0].(*mcp.TextContent).Text, prompt.Messages[0].Content.(*mcp.TextContent).Text} {
			var got map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			require.JSONEq(t, `"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`, string(got["traceparent"]))
			require.JSONEq(t, `{"deep":[1,null]}`, string(got["com.example/n"]))
			require.NotContains(t, text, "the caller")
			require.NotContains(t, text, "1999")
			require.Contains(t, got, "progressToken")
		}
	})
}

func TestWithMeta_invalid(t *testing.T) {
	c := newClient(t)
	calls := 0
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: rawServer(func(method, _ string) string {
		if method == "tools/call" || strings.HasSuffix(method, "/read") {
			calls++
		}
		return ""
	})}))
	deep := strings.Repeat(`{"a":`, 9001) + "1" + strings.Repeat("}", 9001)
	for name, meta := range map[string]string{"a list": `[1]`, "cut off": `{"a":1`, "two": `{}{}`, "too long": `{"a":"` + strings.Repeat("x", 64<<10) + `"}`, "too deep": deep} {
		_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(meta)))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, name)
		_, err = c.ReadResourceRaw(t.Context(), "s", "x:y", facade.WithMeta(json.RawMessage(meta)))
		require.ErrorIs(t, err, mcpvisor.ErrInvalid, name)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	}
	require.Zero(t, calls)
	_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(nil), facade.WithMeta(json.RawMessage(" {} ")))
	require.NoError(t, err)
}

// Members of _meta reach the server byte for byte, with each kind of request.
func TestWithMeta_byte_for_byte(t *testing.T) {
	var mu sync.Mutex
	var last string
	answer := func(method, line string) string {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case "resources/read":
			last = line
			return `{"contents":[],"resultType":"complete"}`
		case "prompts/get":
			last = line
			return `{"messages":[],"resultType":"complete"}`
		case "completion/complete":
			last = line
			return `{"completion":{"values":[]},"resultType":"complete"}`
		case "tools/call":
			last = line
			return `{"content":[],"resultType":"complete"}`
		}
		return ""
	}
	onEveryRawServer(t, answer, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		rapid.Check(t, func(rt *rapid.T) {
			kept, more := drawMembers(rt, "members"), drawMembers(rt, "more")
			own := rapid.SampledFrom([]string{"", `,"progressToken":7`, `,"\u0070rogressToken": {"a":1}`, `,"io.modelcontextprotocol/clientInfo":{}`}).Draw(rt, "own")
			meta := facade.WithMeta(json.RawMessage("{" + kept + own + "," + more + "}"))
			for name, call := range map[string]func() error{
				"call": func() error {
					_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"z":1}`), meta)
					return err
				},
				"read":   func() error { _, err := c.ReadResourceRaw(t.Context(), "s", "x:y", meta); return err },
				"prompt": func() error { _, err := c.GetPromptRaw(t.Context(), "s/p", nil, meta); return err },
				"complete": func() error {
					_, err := c.Complete(t.Context(), "s", facade.CompletionRequest{Prompt: "p", Argument: "a"}, meta)
					return err
				},
			} {
				require.NoError(rt, call(), name)
				mu.Lock()
				line := last
				mu.Unlock()
				want := strings.Trim(passed(spec, "{"+kept+","+more+"}"), "{}") // nothing more: some values end with a brace
				if own != "" {                                                  // white space goes with a member that is left out
					between := strings.NewReplacer(", ", ",", ",\t", ",")
					line, want = between.Replace(line), between.Replace(want)
				}
				require.Contains(rt, line, want, name)
				require.Equal(rt, 1, strings.Count(line, "rogressToken"), "%s: one token in %s", name, line)
			}
		})
	})
}

// The observer's members win over those of the caller, and a tracestate goes with its traceparent.
func TestWithMeta_beside_an_observer(t *testing.T) {
	var last string
	c := newClient(t, facade.WithObserver(metaObserver{[]byte(`{"traceparent":"ours","com.example/ours":1}`)}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, InMemory: rawServer(func(method, line string) string {
		if method == "tools/call" {
			last = line
		}
		return ""
	})}))
	_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(`{"traceparent":"theirs","tracestate":"theirs","baggage":"theirs"}`)))
	require.NoError(t, err)
	require.Contains(t, last, `"traceparent":"ours","com.example/ours":1,"baggage":"theirs"`)
	require.Equal(t, 1, strings.Count(last, "theirs"))
	_, err = c.CallToolRaw(t.Context(), "s/x", nil, facade.WithMeta(json.RawMessage(`{"traceparent":"theirs"}`)))
	require.NoError(t, err)
	require.Contains(t, last, `"traceparent":"ours","com.example/ours":1}`)
}

// metaObserver has members of _meta travel with each request.
type metaObserver struct{ meta []byte }

func (o metaObserver) RequestStarted(ctx context.Context, _ mcpvisor.RequestStart) (context.Context, []byte) {
	return ctx, o.meta
}
func (metaObserver) RequestEnded(context.Context, mcpvisor.RequestEnd) {}
