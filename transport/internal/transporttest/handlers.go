package transporttest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// AcceptAfter returns a form handler that calls f and then accepts.
func AcceptAfter(f func(ctx context.Context)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		f(ctx)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
}

var (
	// AcceptAtOnce is a form handler that accepts without a delay.
	AcceptAtOnce = AcceptAfter(func(context.Context) {})
	// AnySample is a sampling handler that answers "hi".
	AnySample = func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
)

// ElicitRequest is a format for an elicitation of the server; its argument is the id.
const ElicitRequest = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"?"}}`

const (
	// FormRequired is a result that requests a form as its input.
	FormRequired = `{"resultType":"input_required","inputRequests":{"form":{"method":"elicitation/create","params":{"message":"?",
		"requestedSchema":{"type":"object","properties":{"level":{"type":"integer","default":3}}}}}},"requestState":"s"}`
	// DoneResult is a result that ends a request, with the text "input_required" in it.
	DoneResult = `{"resultType":"complete","content":[{"type":"text","text":"done, input_required no more: \"input_required\""}]}`
)

// SingleLine replaces the line breaks of a JSON text.
func SingleLine(text string) string { return string(jsonrpc.OneLine(json.RawMessage(text))) }

// Secret is in the Secrets of the specifications of this package, so it is redacted.
const Secret = "hunter22"

// ErrByHost is the error of a failing handler.
var ErrByHost = errors.New("said by the host")
