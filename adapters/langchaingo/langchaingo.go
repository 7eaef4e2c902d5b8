// Package langchaingo gives the tools of a facade.Client to langchaingo
// (github.com/tmc/langchaingo).
//
// Its agents take [Tools]:
//
//	agent := agents.NewOpenAIFunctionsAgent(llm, langchaingo.Tools(client))
//	answer, err := chains.Run(ctx, agents.NewExecutor(agent), "…")
//
// The agents of langchaingo show a model tools with one text as argument. So the text is
// the JSON object of the arguments, and the description says so and has the schema. A loop
// of your own gives the model the schemas themselves:
//
//	response, err := llm.GenerateContent(ctx, messages, llms.WithTools(langchaingo.Functions(client)))
//	for _, call := range response.Choices[0].ToolCalls {
//		answer := langchaingo.Call(ctx, client, call)
//		messages = append(messages, …)
//	}
//
// A tool of a server that crashes stays usable: its calls say what happened, and work
// again when the server is back. An agent of langchaingo ends at the first tool that
// returns an error, so these tools return none: the model gets a text that it can act on,
// which also says whether the call may have had an effect (facade.Client.CallToolForModel).
package langchaingo

import (
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/schema"
)

// Tools returns the tools that the client lists now, for the agents of langchaingo. Their
// names are the aliases. The options hold for every call.
func Tools(c *facade.Client, opts ...facade.CallOption) []tools.Tool {
	listed := c.Tools()
	all := make([]tools.Tool, len(listed))
	for i, t := range listed {
		all[i] = &agentTool{client: c, tool: t, opts: opts}
	}
	return all
}

// agentTool is one tool. It does not change.
type agentTool struct {
	client *facade.Client
	tool   mcpvisor.Tool
	opts   []facade.CallOption
}

var _ tools.Tool = (*agentTool)(nil)

// Name implements [tools.Tool].
func (a *agentTool) Name() string { return a.tool.Alias }

// Description implements [tools.Tool].
func (a *agentTool) Description() string {
	text := "The input is a JSON object."
	parameters, _ := schema.Parameters(a.tool)
	if s, err := json.Marshal(parameters); err == nil {
		text = "The input is a JSON object with this schema: " + string(s)
	}
	if d := schema.Description(a.tool); d != "" {
		text = d + "\n" + text
	}
	return text
}

// Call implements [tools.Tool]. It returns no error.
func (a *agentTool) Call(ctx context.Context, input string) (string, error) {
	return callForModel(ctx, a.client, a.tool.Alias, input, a.opts), nil
}

// Functions returns the tools that the client lists now, for llms.WithTools.
func Functions(c *facade.Client) []llms.Tool {
	listed := c.Tools()
	functions := make([]llms.Tool, len(listed))
	for i, t := range listed {
		parameters, _ := schema.Parameters(t)
		functions[i] = llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: t.Alias, Description: schema.Description(t), Parameters: parameters}}
	}
	return functions
}

// Call makes a call that a model asked for, and returns what to give back to it.
func Call(ctx context.Context, c *facade.Client, call llms.ToolCall, opts ...facade.CallOption) llms.ToolCallResponse {
	response := llms.ToolCallResponse{ToolCallID: call.ID, Content: "Error: the call names no function."}
	if f := call.FunctionCall; f != nil {
		response.Name = f.Name
		response.Content = callForModel(ctx, c, f.Name, f.Arguments, opts)
	}
	return response
}

func callForModel(ctx context.Context, c *facade.Client, tool, args string, opts []facade.CallOption) string {
	return schema.TextWithError(c.CallToolForModel(ctx, tool, json.RawMessage(args), opts...))
}
