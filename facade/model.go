package facade

import (
	"context"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/messages"
)

// internalError begins the text of a fault that the model cannot mend by
// calling differently. A prompt may tell it to give up on those.
const internalError = "Internal Error: "

// Fault is the structured content of a result that [Client.CallForModel] makes
// of an error.
type Fault struct {
	// Code is the error's kind, as in "unknown_tool".
	Code string `json:"code"`
	// Message is the text of the result.
	Message string `json:"message"`
	// Retryable says that the same call may succeed later and does no harm twice.
	Retryable bool `json:"is_retryable"`
}

// CallForModel is [Client.Call] for a loop that hands results to a language
// model: it never fails. An error becomes a result with IsError, a text that
// the model can act on, and a [Fault] as its structured content.
//
// What the model can mend by itself (a wrong name, wrong arguments) is said
// plainly. Everything else begins with "Internal Error: ". Neither holds the
// server's stderr, which is the operator's business.
func (c *Client) CallForModel(ctx context.Context, tool string, args any, opts ...CallOption) *mcp.CallToolResult {
	res, err := c.Call(ctx, tool, args, opts...)
	if err == nil {
		return res
	}
	var e *Error
	if errors.As(err, &e) && e.Kind == messages.KindUnknownServer {
		// To a model servers are nothing but a part of tools' names.
		e.Hint = unknownTool(c.rt.Snapshot(), tool).Hint
	}
	return faultResult(tool, err)
}

func faultResult(tool string, err error) *mcp.CallToolResult {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Kind: messages.KindProtocol, Cause: err}
	}
	f := Fault{Code: string(e.Kind), Message: modelText(tool, e), Retryable: e.Retryable()}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: f.Message}},
		StructuredContent: f,
	}
}

// modelText says what happened in words for a model.
func modelText(tool string, e *Error) string {
	switch e.Kind {
	case messages.KindUnknownTool, messages.KindUnknownServer:
		if near, ok := strings.CutPrefix(e.Hint, nearHint); ok {
			return "There is no tool " + tool + ". Did you mean " + near
		}
		return "There is no tool " + tool + ". Use one of the tools that you were given."
	case messages.KindInvalid:
		return "The arguments for " + tool + " cannot be used: " + reason(e)
	case messages.KindRPC:
		var rpc *jsonrpc.Error
		if errors.As(e.Cause, &rpc) && (rpc.Code == codeInvalidParams || rpc.Code == codeMethodNotFound) {
			return tool + " refused the call: " + rpc.Message
		}
		return internalError + tool + " failed: " + reason(e)
	}
	text := internalError
	switch e.Kind {
	case messages.KindUnavailable:
		text += "the server of " + tool + " is not available at the moment" + nothingDone(e)
	case messages.KindOverloaded:
		text += "too many calls to the server of " + tool + " are under way" + nothingDone(e)
	case messages.KindEvicted:
		text += "the server of " + tool + " has failed too often and was given up."
	case messages.KindAuthRequired:
		text += "the server of " + tool + " wants authorization, which a person has to give."
	case messages.KindInputRequired:
		text += "the server of " + tool + " wanted input that nobody gave it."
	case messages.KindTimeout:
		text += tool + " did not answer in time."
	case messages.KindCrashed:
		text += "the server of " + tool + " crashed during the call."
	case messages.KindCanceled:
		text += "the call of " + tool + " was canceled."
	case messages.KindClosed:
		text += "the server of " + tool + " was shut down."
	default:
		text += tool + " failed: " + reason(e)
	}
	if e.Outcome == Unknown {
		text += " Whether it had an effect is not known; check before you repeat it."
	}
	return text
}

func nothingDone(e *Error) string {
	if e.Outcome == NotSent {
		return "; nothing was done."
	}
	return "."
}

// nearHint begins the only hint about a name that a model can use; the others
// are for programmers.
const nearHint = "did you mean "

// The JSON-RPC codes that speak of the caller's mistake.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

func reason(e *Error) string {
	if e.Cause == nil {
		return string(e.Kind)
	}
	return e.Cause.Error()
}
