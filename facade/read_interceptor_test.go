package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestWithReadInterceptor(t *testing.T) {
	ctx, uri, prompt := t.Context(), mcptest.DefaultResources()[0].URI, mcpvisor.Qualify("s", mcptest.DefaultPrompts()[0].Name)
	clientWith := func(t *testing.T, all ...facade.ReadInterceptor) *facade.Client {
		var opts []facade.Option
		for _, f := range all {
			opts = append(opts, facade.WithReadInterceptor(f))
		}
		c := newClient(t, opts...)
		require.NoError(t, c.Register(ctx, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
		return c
	}
	plain := clientWith(t)

	t.Run("the first is the outermost, around all reads and prompts", func(t *testing.T) {
		var order []string
		note := func(name string) facade.ReadInterceptor {
			return func(ctx context.Context, r facade.Read, next facade.ReadNext) (json.RawMessage, error) {
				require.Equal(t, "s", r.Server)
				order = append(order, name+":"+r.URI+mcpvisor.Qualify("s", r.Prompt))
				return next(ctx, r)
			}
		}
		c := clientWith(t, note("a"), nil, note("b"))
		read, err := c.ReadResource(ctx, "s", uri)
		require.NoError(t, err)
		want, err := plain.ReadResource(ctx, "s", uri)
		require.NoError(t, err)
		require.Equal(t, want, read)
		raw, err := c.ReadResourceRaw(ctx, "s", uri)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"contents"`)
		got, err := c.GetPrompt(ctx, prompt, nil)
		require.NoError(t, err)
		wantPrompt, err := plain.GetPrompt(ctx, prompt, nil)
		require.NoError(t, err)
		require.Equal(t, wantPrompt, got)
		raw, err = c.GetPromptRaw(ctx, prompt, nil)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"messages"`)
		r, p := uri+"s/", prompt
		require.Equal(t, []string{"a:" + r, "b:" + r, "a:" + r, "b:" + r, "a:" + p, "b:" + p, "a:" + p, "b:" + p}, order)
	})
	t.Run("it refuses", func(t *testing.T) {
		refused := errors.New("this user may not read")
		c := clientWith(t, func(context.Context, facade.Read, facade.ReadNext) (json.RawMessage, error) { return nil, refused })
		_, err := c.ReadResource(ctx, "s", uri)
		require.ErrorIs(t, err, refused)
		_, err = c.GetPromptRaw(ctx, prompt, nil)
		require.ErrorIs(t, err, refused)
		require.Empty(t, c.ToolStats("s"))
		calls, _ := c.RecentCalls(0)
		require.Empty(t, calls, "what was not sent is no call")
	})
	t.Run("it answers by itself, and a result that cannot be read is an error", func(t *testing.T) {
		answer := json.RawMessage(`{"contents":[{"uri":"x:y","text":"cached"}]}`)
		c := clientWith(t, func(context.Context, facade.Read, facade.ReadNext) (json.RawMessage, error) { return answer, nil })
		read, err := c.ReadResource(ctx, "s", uri)
		require.NoError(t, err)
		require.Equal(t, "cached", read.Contents[0].Text)
		for text, reason := range map[string]string{"": "neither a result", "{": "not JSON", `[]`: "not a JSON object", `{"contents":[null]}`: "missing"} {
			answer = json.RawMessage(text)
			_, err = c.ReadResource(ctx, "s", uri)
			require.ErrorIs(t, err, mcpvisor.ErrInvalid, text)
			require.ErrorContains(t, err, reason, text)
		}
	})
	t.Run("it changes what is read, but not the kind", func(t *testing.T) {
		other := mcptest.DefaultResources()[1].URI
		c := clientWith(t, func(ctx context.Context, r facade.Read, next facade.ReadNext) (json.RawMessage, error) {
			if r.URI = other; r.Prompt != "" {
				return next(ctx, r)
			}
			raw, err := next(ctx, r)
			return json.RawMessage(strings.ReplaceAll(string(raw), other, "changed:uri")), err
		})
		read, err := c.ReadResource(ctx, "s", uri)
		require.NoError(t, err)
		require.Equal(t, "changed:uri", read.Contents[0].URI)
		_, err = c.GetPrompt(ctx, prompt, nil)
		require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		require.ErrorContains(t, err, "one of a prompt")
	})
	t.Run("an error of the server passes through", func(t *testing.T) {
		c := clientWith(t, func(ctx context.Context, r facade.Read, next facade.ReadNext) (json.RawMessage, error) {
			return next(ctx, r)
		})
		_, err := c.ReadResource(ctx, "s", "no:such")
		require.ErrorIs(t, err, mcpvisor.ErrRPC)
		require.ErrorContains(t, err, "read s no:such")
	})
}
