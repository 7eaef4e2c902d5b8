package facade

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// CompletionRequest asks what a person may mean by the beginning of an argument.
type CompletionRequest struct {
	// Prompt is the server's own name of the prompt, or Template the URI template
	// of the resource, whose argument it is. Exactly one of them is set.
	Prompt   string
	Template string
	// Argument is the argument's name, Value what was typed so far.
	Argument string
	Value    string
	// Context holds the arguments that are settled already. Servers before
	// 2025-06-18 do not look at it.
	Context map[string]string
}

// completionResult is what is read of the answer. A completion has 100 values at
// most, so a large answer is decoded as one part, or refused.
type completionResult struct {
	Completion *mcp.CompletionResultDetails `json:"completion"`
}

// Complete asks a server for completions (MCP, utilities, completion). The
// values are in the server's order, the likeliest first. Errors as for
// [Client.Call]; a server without completions answers with ErrRPC.
func (c *Client) Complete(ctx context.Context, server string, what CompletionRequest, opts ...CallOption) (*mcp.CompletionResultDetails, error) {
	op := "complete " + what.Argument + " of " + mcpvisor.Qualify(server, what.Prompt+what.Template)
	ref := map[string]string{"type": "ref/prompt", "name": what.Prompt}
	if what.Template != "" {
		ref = map[string]string{"type": "ref/resource", "uri": what.Template}
	}
	if (what.Prompt == "") == (what.Template == "") || what.Argument == "" {
		return nil, &mcpvisor.Error{Server: server, Op: op, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: errors.New("set Argument, and either Prompt or Template")}
	}
	params := map[string]any{"ref": ref, "argument": map[string]string{"name": what.Argument, "value": what.Value}}
	if len(what.Context) > 0 {
		params["context"] = map[string]any{"arguments": what.Context}
	}
	got, err := c.ask(ctx, op, server, transport.Request{Method: "completion/complete"}, params, opts)
	if err != nil {
		return nil, err
	}
	result, err := decode(ctx, &got, op, "", func(_, _ *completionResult) {})
	if err != nil {
		return nil, err
	}
	if result.Completion == nil {
		return nil, withOp(unreadable(errors.New(`it has no "completion"`)), op)
	}
	return result.Completion, nil
}
