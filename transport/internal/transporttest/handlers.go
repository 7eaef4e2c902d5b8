package transporttest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// AcceptAfter answers forms with an accepting result after f.
func AcceptAfter(f func(ctx context.Context)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		f(ctx)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
}

var (
	// AcceptAtOnce is a form handler that accepts.
	AcceptAtOnce = AcceptAfter(func(context.Context) {})
	// AnySample is a sampling handler that answers "hi".
	AnySample = func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
)

// ElicitRequest is an elicitation of the server, without its id.
const ElicitRequest = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"?"}}`

const (
	// FormRequired is a result that asks for a form.
	FormRequired = `{"resultType":"input_required","inputRequests":{"form":{"method":"elicitation/create","params":{"message":"?",
		"requestedSchema":{"type":"object","properties":{"level":{"type":"integer","default":3}}}}}},"requestState":"s"}`
	// DoneResult is a result that ends a request.
	DoneResult = `{"resultType":"complete","content":[{"type":"text","text":"done, input_required no more: \"input_required\""}]}`
)

// SingleLine replaces the line breaks of a JSON text.
func SingleLine(text string) string { return string(jsonrpc.OneLine(json.RawMessage(text))) }

// Secret is in the Secrets of the specifications here, so that it is redacted.
const Secret = "hunter22"

// ErrByHost is the error of a handler.
var ErrByHost = errors.New("said by the host")
