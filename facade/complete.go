package facade

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Completion asks what a person may mean by the beginning of an argument.
type Completion struct {
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

// Complete asks a server for completions (MCP, utilities, completion). The
// values are in the server's order, the likeliest first. Errors as for
// [Client.Call]; a server without completions answers with ErrRPC.
func (c *Client) Complete(ctx context.Context, server string, what Completion, opts ...CallOption) (*mcp.CompletionResultDetails, error) {
	op := "complete " + what.Argument + " of " + messages.Qualify(server, what.Prompt+what.Template)
	ref := map[string]string{"type": "ref/prompt", "name": what.Prompt}
	if what.Template != "" {
		ref = map[string]string{"type": "ref/resource", "uri": what.Template}
	}
	if (what.Prompt == "") == (what.Template == "") || what.Argument == "" {
		return nil, &Error{Server: server, Op: op, Kind: messages.KindInvalid, Outcome: NotSent,
			Cause: errors.New("set Argument, and either Prompt or Template")}
	}
	params := map[string]any{"ref": ref, "argument": map[string]string{"name": what.Argument, "value": what.Value}}
	if len(what.Context) > 0 {
		params["context"] = map[string]any{"arguments": what.Context}
	}
	raw, err := c.ask(ctx, op, server, transport.Request{Method: "completion/complete"}, params, opts)
	if err != nil {
		return nil, err
	}
	var result struct {
		Completion *mcp.CompletionResultDetails `json:"completion"`
	}
	err = checkResult(raw)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	if err == nil && result.Completion == nil {
		err = errors.New(`it has no "completion"`)
	}
	if err != nil {
		return nil, withOp(unreadable(err), op)
	}
	return result.Completion, nil
}
