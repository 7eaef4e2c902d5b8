package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// internalError begins the text of a fault that the model cannot mend by
// calling differently. A prompt may tell it to give up on those.
const internalError = "Internal Error: "

// ModelError is the structured content of a result that [Client.CallForModel] makes
// of an error.
type ModelError struct {
	// Code is the error's kind, as in "unknown_tool".
	Code string `json:"code"`
	// Message is the text of the result.
	Message string `json:"message"`
	// Retryable says that the same call may succeed later and does no harm twice.
	Retryable bool `json:"isRetryable"`
}

// CallToolForModel is [Client.Call] for a loop that hands results to a language
// model: it never fails. An error becomes a result with IsError, a text that
// the model can act on, and a [Fault] as its structured content.
//
// What the model can mend by itself (a wrong name, wrong arguments) is said
// plainly. Everything else begins with "Internal Error: ". Neither holds the
// server's stderr, which is the operator's business.
func (c *Client) CallToolForModel(ctx context.Context, tool string, args any, opts ...CallOption) *mcp.CallToolResult {
	res, err := c.CallTool(ctx, tool, args, opts...)
	if err == nil {
		return res
	}
	var near []string
	if errors.Is(err, mcpvisor.ErrUnknownServer) || errors.Is(err, mcpvisor.ErrUnknownTool) {
		near = nearTools(c.rt.Snapshot(), tool, aliasesFirst)
	}
	return faultResult(tool, err, near...)
}

// faultResult makes a result of an error. near are the tools that may be meant, in
// the spelling that the model uses.
func faultResult(tool string, err error, near ...string) *mcp.CallToolResult {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		e = &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Cause: err}
	}
	f := ModelError{Code: string(e.Kind), Message: modelText(shortened(tool), e, near), Retryable: e.Retryable()}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: f.Message}},
		StructuredContent: f,
	}
}

// longestQuote is how much of a name that a model invented is said back to it.
const longestQuote = 128

func shortened(name string) string {
	if len(name) <= longestQuote {
		return name
	}
	return strings.ToValidUTF8(name[:longestQuote], "") + "…"
}

// modelText says what happened in words for a model.
func modelText(tool string, e *mcpvisor.Error, near []string) string {
	switch e.Kind {
	case mcpvisor.KindUnknownTool, mcpvisor.KindUnknownServer:
		if len(near) > 0 {
			return "There is no tool " + tool + ". Did you mean " + strings.Join(near, ", ") + "?"
		}
		return "There is no tool " + tool + ". Use one of the tools that you were given."
	case mcpvisor.KindInvalid:
		return "The arguments for " + tool + " cannot be used: " + argumentsReason(e)
	case mcpvisor.KindRPC:
		var rpc *jsonrpc.Error
		if errors.As(e.Cause, &rpc) && (rpc.Code == codeInvalidParams || rpc.Code == codeMethodNotFound) {
			return tool + " refused the call: " + rpc.Message
		}
		return internalError + tool + " failed: " + reason(e)
	}
	text := internalError
	switch e.Kind {
	case mcpvisor.KindUnavailable:
		text += "the server of " + tool + " is not available at the moment" + tryAgain(e)
	case mcpvisor.KindOverloaded:
		text += "too many calls to the server of " + tool + " are under way" + tryAgain(e)
	case mcpvisor.KindEvicted:
		text += "the server of " + tool + " has failed too often and was given up."
	case mcpvisor.KindAuthRequired:
		text += "the server of " + tool + " wants authorization, which a person has to give."
	case mcpvisor.KindInputRequired:
		text += "the server of " + tool + " wanted input that nobody gave it."
	case mcpvisor.KindTimeout:
		text += tool + " did not answer in time."
	case mcpvisor.KindCrashed:
		text += "the server of " + tool + " crashed during the call."
	case mcpvisor.KindCanceled:
		text += "the call of " + tool + " was canceled."
	case mcpvisor.KindClosed:
		text += "the server of " + tool + " was shut down."
	default:
		text += tool + " failed: " + reason(e)
	}
	if e.Outcome == mcpvisor.OutcomeUnknown {
		text += " Whether it had an effect is not known; check before you repeat it."
	}
	return text
}

// tryAgain ends the text of a call that may be repeated: nothing was done.
func tryAgain(e *mcpvisor.Error) string {
	if e.Outcome != mcpvisor.OutcomeNotSent {
		return "."
	}
	switch wait := e.RetryAfter; {
	case wait >= 2*time.Minute:
		return fmt.Sprintf("; nothing was done. Try again in %.0f min.", wait.Minutes())
	case wait >= time.Second:
		return fmt.Sprintf("; nothing was done. Try again in %.0f s.", wait.Seconds())
	}
	return "; nothing was done. Try again."
}

// The JSON-RPC codes that speak of the caller's mistake.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

// argumentsReason says what is wrong with arguments. What it says to a program of
// Go's types is of no use to a model.
func argumentsReason(e *mcpvisor.Error) string {
	switch {
	case errors.Is(e.Cause, errNoObject):
		return "they must be a JSON object"
	case errors.Is(e.Cause, errNoJSON):
		return fmt.Sprintf("they are not valid JSON, or nested deeper than %d levels", maxDepth)
	case speaksOfGo(e.Cause):
		return "they cannot be written as JSON"
	}
	return reason(e)
}

// reason is why a call failed, for a model. A decoder's own words speak of Go's
// types.
func reason(e *mcpvisor.Error) string {
	if e.Cause == nil {
		return string(e.Kind)
	}
	if e.Kind == mcpvisor.KindProtocol && speaksOfGo(e.Cause) {
		return "the server's answer cannot be read"
	}
	return e.Cause.Error()
}

// speaksOfGo reports whether an error is about JSON that does not fit Go's types.
func speaksOfGo(err error) bool {
	var (
		typ         *json.UnmarshalTypeError
		unsupported *json.UnsupportedTypeError
		value       *json.UnsupportedValueError
		marshaler   *json.MarshalerError
	)
	return err != nil && (errors.As(err, &typ) || errors.As(err, &unsupported) || errors.As(err, &value) || errors.As(err, &marshaler) ||
		strings.Contains(err.Error(), "json: ") || strings.Contains(err.Error(), "Go value"))
}
