package facade

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// CompletionRequest asks for completions of an argument of a prompt or of a resource
// template.
type CompletionRequest struct {
	// Prompt is the server's own name of the prompt, Template the URI template of the
	// resource, that has the argument. Exactly one of them is required.
	Prompt   string
	Template string
	// Argument is the argument's name. Required. Value is the text typed so far.
	Argument string
	Value    string
	// Context holds arguments that are already set; optional. Servers before 2025-06-18
	// ignore it.
	Context map[string]string
}

// Complete asks a server for completions (MCP, server, utilities, completion:
// completion/complete). The values are in the server's order, best first, at most 100.
// Errors as for [Client.CallTool], ErrUnknownTool excepted; a server without completions
// answers with ErrRPC.
func (c *Client) Complete(ctx context.Context, server string, r CompletionRequest, opts ...CallOption) (*mcp.CompletionResultDetails, error) {
	a, err := r.ask(server)
	if err != nil {
		return nil, err
	}
	result, err := askDecoded[completionResult](ctx, c, a, opts)
	if err != nil {
		return nil, err
	}
	return result.Completion, nil
}

// CompleteRaw implements relay.Methods.
func (c relayed) CompleteRaw(ctx context.Context, server string, r CompletionRequest, opts ...CallOption) (json.RawMessage, error) {
	a, err := r.ask(server)
	if err != nil {
		return nil, err
	}
	return c.askRaw(ctx, a, opts)
}

// ask returns the request. The error is of ErrInvalid.
func (r CompletionRequest) ask(server string) (ask, error) {
	op := "complete " + r.Argument + " of " + mcpvisor.Qualify(server, r.Prompt+r.Template)
	ref := map[string]string{"type": "ref/prompt", "name": r.Prompt}
	if r.Template != "" {
		ref = map[string]string{"type": "ref/resource", "uri": r.Template}
	}
	if (r.Prompt == "") == (r.Template == "") || r.Argument == "" {
		return ask{}, &mcpvisor.Error{Op: op, Server: server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: errors.New("set Argument, and either Prompt or Template")}
	}
	params := map[string]any{"ref": ref, "argument": map[string]string{"name": r.Argument, "value": r.Value}}
	if len(r.Context) > 0 {
		params["context"] = map[string]any{"arguments": r.Context}
	}
	return ask{server, op, "CompleteRaw", transport.Request{Method: "completion/complete"}, params}, nil
}

// completionResult is the part of the result that is used.
type completionResult struct {
	Completion *mcp.CompletionResultDetails `json:"completion"`
}
