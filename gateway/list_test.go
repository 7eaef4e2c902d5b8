package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func withPageSize(entries int) Option { return func(o *options) { o.pageSize = entries } }

// A session of the go-sdk reads all pages.
func TestListTools_pages(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		c := newClient(t, fixture("a", mcptest.Script{ExtraTools: 30}), fixture("b", mcptest.Script{}))
		s := connect(t, Transport(c, withPageSize(7)), version, nil)
		var want, got []string
		for _, tool := range c.Tools() {
			want = append(want, tool.Alias)
		}
		for tool, err := range s.Tools(t.Context(), nil) {
			require.NoError(t, err)
			got = append(got, tool.Name)
		}
		require.Equal(t, want, got)
	})
}

// Lists say that they must not be cached, and since 2026-07-28 that they are complete.
func TestLists_are_not_cached(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	s := openRaw(t, Transport(c))
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		answer := s.call(method, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
		require.NoError(t, answer.Error)
		require.Equal(t, `"complete"`, member(t, answer.Result, "resultType"))
		require.Equal(t, "0", member(t, answer.Result, "ttlMs"))
		require.Equal(t, `"private"`, member(t, answer.Result, "cacheScope"))
	}
}

// A resource that two servers have is read from the one that its URI names.
func TestResources_of_two_servers(t *testing.T) {
	ctx := t.Context()
	script := func(text string, more ...mcptest.ResourceDef) mcptest.Script {
		return mcptest.Script{Resources: append(more, mcptest.ResourceDef{URI: "file:///same", Text: text}), NoPrompts: true}
	}
	c := newClient(t, fixture("a", script("of a", mcptest.ResourceDef{URI: "file:///only", Text: "only a"})), fixture("b", script("of b")))
	s := connect(t, Transport(c), "2025-11-25", nil)
	listed, err := s.ListResources(ctx, nil)
	require.NoError(t, err)
	var uris []string
	for _, r := range listed.Resources {
		uris = append(uris, r.URI)
	}
	require.Equal(t, []string{"file:///only", "mcpvisor://a/file:///same", "mcpvisor://b/file:///same"}, uris)
	for uri, want := range map[string]string{"file:///only": "only a", "mcpvisor://a/file:///same": "of a", "mcpvisor://b/file:///same": "of b", "mcpvisor://a/file:///only": "only a"} {
		got, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		require.NoError(t, err)
		require.Equal(t, want, got.Contents[0].Text)
	}
	_, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///same"})
	var wire *jsonrpc.Error
	require.ErrorAs(t, err, &wire)
	require.EqualValues(t, jsonrpc.CodeInvalidParams, wire.Code)
	require.Contains(t, wire.Message, "use one of mcpvisor://a/file:///same mcpvisor://b/file:///same")

	templates, err := s.ListResourceTemplates(ctx, nil)
	require.NoError(t, err)
	require.Len(t, templates.ResourceTemplates, 2)
	require.Equal(t, "mcpvisor://a/"+c.ResourceTemplates()[0].URITemplate, templates.ResourceTemplates[0].URITemplate)
}

// While a server is down, the names of what it has listed still lead to it.
func TestNames_while_a_server_is_down(t *testing.T) {
	ctx := t.Context()
	spec := fixture("a", mcptest.Script{Prompts: []mcptest.PromptDef{{Name: "odd name!"}}})
	spec.Policy = supervisor.Retry(1, time.Hour)
	c := newClient(t, spec)
	s := connect(t, Transport(c, WithMaxWait(-1)), "2025-11-25", nil)
	alias, uri := mcpvisor.Alias("a", "odd name!"), c.Resources()[0].URI
	expansion := strings.NewReplacer("{", "", "}", "").Replace(c.ResourceTemplates()[0].URITemplate)
	try := func() (errs []error) {
		_, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: alias})
		errs = append(errs, err)
		for _, uri := range []string{uri, expansion} {
			_, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
			errs = append(errs, err)
		}
		return errs
	}
	require.NoError(t, try()[0])
	_, err := c.CallTool(ctx, "a/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	for _, err := range try() {
		require.ErrorContains(t, err, "the server of")
		require.ErrorContains(t, err, "is not available at the moment; nothing was done")
	}
	require.NoError(t, c.Unregister(ctx, "a"))
	for _, err := range try()[1:] {
		require.ErrorContains(t, err, "no server has the resource")
	}
}

// Completion finds the server of the prompt or the template, and knows the server's own name.
func TestComplete(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		server := mcp.NewServer(&mcp.Implementation{Name: "places", Version: "1"}, &mcp.ServerOptions{
			CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				p := r.Params
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
					Values: []string{p.Ref.Name + p.Ref.URI + " " + p.Argument.Name + " " + p.Argument.Value + " " + p.Context.Arguments["country"]}}}, nil
			},
		})
		server.AddPrompt(&mcp.Prompt{Name: "visit.us"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
		server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "city", URITemplate: "city://{name}"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil })
		c := newClient(t, mcpvisor.ServerSpec{Name: "p", InMemory: facade.ServeInMemory(server)})
		s := connect(t, Transport(c), version, nil)
		alias := mcpvisor.Alias("p", "visit.us")
		_, _, plain := mcpvisor.SplitAlias(alias)
		require.False(t, plain, "the alias has to be looked up")
		for want, ref := range map[string]*mcp.CompleteReference{
			"visit.us name Par fr":       {Type: "ref/prompt", Name: alias},
			"city://{name} name Par fr":  {Type: "ref/resource", URI: "city://{name}"},
			"city://{other} name Par fr": {Type: "ref/resource", URI: "mcpvisor://p/city://{other}"},
		} {
			got, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "Par"},
				Context: &mcp.CompleteContext{Arguments: map[string]string{"country": "fr"}}})
			require.NoError(t, err)
			require.Equal(t, []string{want}, got.Completion.Values)
		}
		got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: alias})
		require.NoError(t, err)
		require.Empty(t, got.Messages)
	})
}
