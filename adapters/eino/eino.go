// Package eino gives the tools of a facade.Client to Eino (github.com/cloudwego/eino): to
// its ReAct agent, its tools node and its agent development kit.
//
//	agent, err := react.NewAgent(ctx, &react.AgentConfig{
//		ToolCallingModel: model,
//		ToolsConfig:      compose.ToolsNodeConfig{Tools: eino.Tools(client)},
//	})
//
// A tool of a server that crashes stays usable: its calls say what happened, and work
// again when the server is back. Eino ends an agent at the first tool that returns an
// error, so these tools return none: the model gets a text that it can act on, which also
// says whether the call may have had an effect (facade.Client.CallToolForModel).
//
// Do not repeat calls with a middleware of your own, or with the replay of eino-ext's MCP
// tools: a call whose outcome is not known may have run.
package eino

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/tool"
	einoschema "github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/schema"
)

// Tools returns the tools that the client lists now, as [tool.InvokableTool] values with
// their aliases as names. The options hold for every call. An agent keeps the tools that
// it was made with: make it again when the list changes (mcpvisor.EventChanged), or
// use facade.WithStickyTools to list servers that are down at the moment, too.
func Tools(c *facade.Client, opts ...facade.CallOption) []tool.BaseTool {
	listed := c.Tools()
	tools := make([]tool.BaseTool, len(listed))
	for i, t := range listed {
		tools[i] = &invokable{client: c, tool: t, opts: opts}
	}
	return tools
}

// invokable is one tool. It does not change.
type invokable struct {
	client *facade.Client
	tool   mcpvisor.Tool
	opts   []facade.CallOption
}

var _ tool.InvokableTool = (*invokable)(nil)

// Info implements [tool.BaseTool]. It returns no error: one would take the tools of all
// servers from the agent. If Eino cannot read a schema, any arguments are allowed.
func (i *invokable) Info(context.Context) (*einoschema.ToolInfo, error) {
	parameters, _ := schema.Parameters(i.tool)
	s := new(jsonschema.Schema)
	text, err := json.Marshal(parameters)
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		s = &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties()}
	}
	return &einoschema.ToolInfo{Name: i.tool.Alias, Desc: schema.Description(i.tool),
		ParamsOneOf: einoschema.NewParamsOneOfByJSONSchema(s)}, nil
}

// InvokableRun implements [tool.InvokableTool]. It returns no error.
func (i *invokable) InvokableRun(ctx context.Context, args string, _ ...tool.Option) (string, error) {
	result := i.client.CallToolForModel(ctx, i.tool.Alias, json.RawMessage(args), i.opts...)
	return schema.TextWithError(result), nil
}
