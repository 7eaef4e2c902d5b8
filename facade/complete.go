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
	op := r.op(server)
	params, err := r.params(server)
	if err != nil {
		return nil, withOp(err, op)
	}
	var q tracked
	defer q.abandon()
	got, err := c.sendTo(ctx, &q, server, transport.Request{Method: "completion/complete"}, params, opts)
	if err != nil {
		return nil, withOp(q.end(c, err), op)
	}
	result, err := decodeResult[completionResult](ctx, &got)
	if err == nil && result.Completion == nil {
		err = unreadableResult(errors.New(`it has no "completion"`))
	}
	if q.end(c, err) != nil {
		return nil, withOp(err, op)
	}
	return result.Completion, nil
}

// CompleteRaw is [Client.Complete] that returns the result as the server sent it, undecoded: the
// JSON of an mcp.CompleteResult. Members that the go-sdk does not know survive.
func (c *Client) CompleteRaw(ctx context.Context, server string, r CompletionRequest, opts ...CallOption) (json.RawMessage, error) {
	op := r.op(server)
	params, err := r.params(server)
	if err != nil {
		return nil, withOp(err, op)
	}
	var q tracked
	defer q.abandon()
	got, err := c.sendTo(ctx, &q, server, transport.Request{Method: "completion/complete"}, params, opts)
	if q.end(c, err) != nil {
		return nil, withOp(err, op)
	}
	got.share.Release()
	return got.raw, nil
}

// op is what an error calls the request.
func (r CompletionRequest) op(server string) string {
	return "complete " + r.Argument + " of " + mcpvisor.Qualify(server, r.Prompt+r.Template)
}

// params are the params of the request. The error is of KindInvalid.
func (r CompletionRequest) params(server string) (map[string]any, error) {
	ref := map[string]string{"type": "ref/prompt", "name": r.Prompt}
	if r.Template != "" {
		ref = map[string]string{"type": "ref/resource", "uri": r.Template}
	}
	if (r.Prompt == "") == (r.Template == "") || r.Argument == "" {
		return nil, &mcpvisor.Error{Server: server, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: errors.New("set Argument, and either Prompt or Template")}
	}
	params := map[string]any{"ref": ref, "argument": map[string]string{"name": r.Argument, "value": r.Value}}
	if len(r.Context) > 0 {
		params["context"] = map[string]any{"arguments": r.Context}
	}
	return params, nil
}

// completionResult is the part of the result that is used.
type completionResult struct {
	Completion *mcp.CompletionResultDetails `json:"completion"`
}
