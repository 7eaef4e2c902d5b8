// Package genkit gives the tools of a facade.Client to Genkit
// (github.com/firebase/genkit/go).
//
//	var refs []ai.ToolRef
//	for _, tool := range genkit.Tools(client) {
//		refs = append(refs, tool)
//	}
//	response, err := gk.Generate(ctx, g, ai.WithPrompt("…"), ai.WithTools(refs...))
//
// The tools are made for one request and not registered, so that each request has the
// tools of its moment. To register one: genkit.RegisterAction(g, tool).
//
// A tool of a server that crashes stays usable: its calls say what happened, and work
// again when the server is back. Genkit ends a request at the first tool that returns an
// error, so these tools return none: the model gets a text that it can act on, which also
// says whether the call may have had an effect (facade.Client.CallToolForModel).
//
// Genkit itself compares arguments with the tool's schema, also with the formats in it, and
// ends the request if they do not match. What its validator cannot read is removed, and if
// that is not enough, any arguments are allowed: the server, or facade.WithValidation,
// checks them.
package genkit

import (
	"github.com/firebase/genkit/go/ai"
	"github.com/xeipuuv/gojsonschema"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/schema"
)

// Tools returns the tools that the client lists now. Their names are the aliases. The
// options hold for every call. It is safe for concurrent use.
func Tools(c *facade.Client, opts ...facade.CallOption) []ai.Tool {
	listed := c.Tools()
	tools := make([]ai.Tool, len(listed))
	for i, t := range listed {
		tools[i] = newTool(c, t, opts)
	}
	return tools
}

func newTool(c *facade.Client, t mcpvisor.Tool, opts []facade.CallOption) ai.Tool {
	parameters, _ := schema.Parameters(t)
	if _, err := gojsonschema.NewSchema(gojsonschema.NewGoLoader(parameters)); err != nil {
		parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	call := func(ctx *ai.ToolContext, args any) (string, error) {
		result := c.CallToolForModel(ctx, t.Alias, args, opts...)
		return schema.TextWithError(result), nil
	}
	return ai.NewTool(t.Alias, schema.Description(t), call, ai.WithInputSchema(parameters))
}
