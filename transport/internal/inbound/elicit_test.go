package inbound

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// formWithDefaults is a form of two fields.
var formWithDefaults = map[string]any{"type": "object", "properties": map[string]any{
	"a": map[string]any{"type": "integer", "default": 2.0}, "b": map[string]any{"type": "integer", "default": 3.0}}}

// Defaults fill gaps: what a person wrote stays, also where it is the same as
// nothing.
func TestDefaultsFillGapsOnly(t *testing.T) {
	content := map[string]any{"a": 0.0}
	require.Equal(t, map[string]any{"a": 0.0, "b": 3.0}, applyDefaults(content, formWithDefaults))
	require.Equal(t, map[string]any{"a": 0.0}, content, "the handler's own is left alone")
}

// Whoever says no has said nothing else.
func TestARefusalTakesNothingAlong(t *testing.T) {
	a := newTestHandler()
	for action, want := range map[string]map[string]any{"accept": {"a": 1.0, "b": 3.0}, "decline": nil, "cancel": nil} {
		a.Handlers.ElicitForm = func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: action, Content: map[string]any{"a": 1.0}}, nil
		}
		res, err := a.elicit(t.Context(), &mcp.ElicitRequest{Params: &mcp.ElicitParams{RequestedSchema: formWithDefaults}})
		require.NoError(t, err)
		require.Equal(t, want, res.Content, action)
	}
}

// A model that says nothing has not answered, and its handler's result is its own.
func TestSamplesThatAreNone(t *testing.T) {
	a := newTestHandler()
	var said mcp.CreateMessageWithToolsResult
	a.Handlers.Sample = func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &said, nil
	}
	sample := func() (*mcp.CreateMessageWithToolsResult, error) {
		return a.sample(t.Context(), &mcp.CreateMessageWithToolsRequest{Params: &mcp.CreateMessageWithToolsParams{}})
	}
	for _, content := range [][]mcp.Content{nil, {}, {nil}} {
		said.Content = content
		_, err := sample()
		require.ErrorIs(t, err, errNoAnswer)
	}
	said.Content = []mcp.Content{&mcp.TextContent{Text: "hi"}}
	res, err := sample()
	require.NoError(t, err)
	require.Equal(t, mcp.Role("assistant"), res.Role)
	require.Empty(t, said.Role)
}

// Tools in sampling are declared, or there are none: a choice among them is one
// too.
func TestToolsInSamplingAreDeclared(t *testing.T) {
	a := newTestHandler()
	a.Handlers.Sample = transporttest.AnySample
	for _, p := range []*mcp.CreateMessageWithToolsParams{{Tools: []*mcp.Tool{{Name: "t"}}}, {ToolChoice: &mcp.ToolChoice{Mode: "auto"}}} {
		req := &mcp.CreateMessageWithToolsRequest{Params: p}
		a.Handlers.SampleTools = false
		require.ErrorContains(t, a.checkRequest(methodSample, req), "declares no tools")
		a.Handlers.SampleTools = true
		require.NoError(t, a.checkRequest(methodSample, req))
	}
}

// What the go-sdk does not survive, and what cannot be written, costs the one
// question.
func TestServingSurvives(t *testing.T) {
	a := newTestHandler()
	for name, next := range map[string]mcp.MethodHandler{
		"a panic": func(context.Context, string, mcp.Request) (mcp.Result, error) { panic("of the go-sdk") },
		"no JSON": func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"f": func() {}}}, nil
		},
	} {
		a.Next = next
		res, text, err := a.dispatch(t.Context(), methodElicit, &mcp.ElicitRequest{Params: &mcp.ElicitParams{}}, nil)
		require.Nil(t, res, name)
		require.Nil(t, text, name)
		require.ErrorIs(t, err, errNoAnswer, name)
	}
}
