package gateway

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// completionRef is what has the argument: a prompt or a resource template.
type completionRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
	URI  string `json:"uri"`
}

type completionArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type completionContext struct {
	Arguments map[string]string `json:"arguments"`
}

// complete answers completion/complete (MCP, server, utilities, completion).
func (c *connection) complete(r *request, p *params) (any, error) {
	request := facade.CompletionRequest{Argument: p.Argument.Name, Value: p.Argument.Value, Context: p.Context.Arguments}
	var server string
	switch p.Ref.Type {
	case "ref/prompt":
		var err error
		if server, request.Prompt, err = c.findPrompt(r.ctx, p.Ref.Name); err != nil {
			return nil, err
		}
	case "ref/resource":
		found, err := c.findTemplate(p.Ref.URI)
		if err != nil {
			return nil, err
		}
		server, request.Template = found.Server, found.URI
	default:
		return nil, message.InvalidParams("the type of ref is " + message.Quote(p.Ref.Type) + "; use ref/prompt or ref/resource")
	}
	return c.perform(r, &upstreamRequest{
		server: server, meta: metaOf(r.Params), of: p.callMeta(), modern: p.modern(),
		send: func(ctx context.Context, opts ...facade.CallOption) (json.RawMessage, error) {
			var details *mcp.CompletionResultDetails
			err := c.whenUp(ctx, server, func(client *facade.Client) (err error) {
				details, err = client.Complete(ctx, server, request, opts...)
				return err
			})
			if err != nil {
				return nil, err
			}
			return message.Result(&mcp.CompleteResult{Completion: *details}, p.modern())
		},
		answerTo: func(err error) (json.RawMessage, error) { return nil, c.protocolError(p.Ref.Name+p.Ref.URI, err) },
	})
}
