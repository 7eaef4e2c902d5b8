package gateway

import (
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// protocolError returns the JSON-RPC error of a request that the client could not answer:
// the error of the server, if it answered with one, and otherwise the text for a model, with
// a facade.ModelError as data.
func (c *connection) protocolError(target string, err error) *jsonrpc.Error {
	if refused, ok := err.(*jsonrpc.Error); ok { // no server was asked
		return refused
	}
	var wire *jsonrpc.Error
	if errors.Is(err, mcpvisor.ErrRPC) && errors.As(err, &wire) {
		same := *wire
		return &same
	}
	if isUnknown(err) && c.profile() != nil { // the client suggests names that may be hidden
		return message.InvalidParams(message.Quote(target) + " is not offered; list again")
	}
	result := c.client.ErrorForModel(target, err)
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: textOf(result)}
	var failed *mcpvisor.Error
	if errors.As(err, &failed) && failed.Kind == mcpvisor.KindUnavailable {
		if status, ok := c.statusOf(failed.Server); ok {
			e.Message += " (Server " + failed.Server + " is " + string(status.State) + ".)"
		}
	}
	if isUnknown(err) || errors.Is(err, mcpvisor.ErrInvalid) {
		e.Code = jsonrpc.CodeInvalidParams
	}
	e.Data, _ = json.Marshal(result.StructuredContent) // a ModelError always marshals
	return e
}

const errEndedEarly = "the session was ended, or the gateway is shutting down"

// giveUp is the answer to a request whose session has ended before it. admitted: a server may have executed it.
// An HTTP status such as 503 would say that it may be repeated.
func (c *connection) giveUp(r *request, admitted bool) *jsonrpc.Response {
	answer := &jsonrpc.Response{ID: r.ID}
	failure := &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent}
	text := errEndedEarly + "; nothing was done"
	if admitted {
		failure.Kind, failure.Outcome = mcpvisor.KindCanceled, mcpvisor.OutcomeUnknown
		text = errEndedEarly + ". The request may have been executed; check before you repeat it."
	}
	if r.Method == "tools/call" {
		version, _ := readMeta(r.Request)
		t, _ := readToolCall(r.Params) // its name is enough
		result, err := message.Result(c.client.ErrorForModel(t.name, failure), version >= modernVersion)
		if err == nil {
			answer.Result = result
			return answer
		}
	}
	data, _ := json.Marshal(map[string]mcpvisor.Outcome{"outcome": failure.Outcome}) // text always marshals
	answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: data}
	return answer
}

// isUnknown reports whether the name of the request stands for nothing.
func isUnknown(err error) bool {
	return errors.Is(err, mcpvisor.ErrUnknownTool) || errors.Is(err, mcpvisor.ErrUnknownServer)
}

func textOf(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}
