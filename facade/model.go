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

// internalError begins the text of an error that the model cannot avoid by calling
// differently. A prompt may tell the model to give up on those.
const internalError = "Internal Error: "

// ModelError is the structured content of a result that [Client.CallToolForModel] makes of
// an error.
type ModelError struct {
	// Code is the error's kind, as in "unknown_tool".
	Code string `json:"code"`
	// Message is the text of the result.
	Message string `json:"message"`
	// Retryable says that the same call may succeed later and that repeating it is safe.
	Retryable bool `json:"isRetryable"`
}

// CallToolForModel is [Client.CallTool] for an agent loop that passes results to a language
// model: it never fails. An error becomes a result with IsError, a text that the model
// can act on, and a [ModelError] as structured content.
//
// Mistakes that the model can correct (a wrong name, wrong arguments) are described
// plainly. The text of every other error begins with "Internal Error: ". Neither contains
// the server's stderr, which is for operators.
func (c *Client) CallToolForModel(ctx context.Context, tool string, args any, opts ...CallOption) *mcp.CallToolResult {
	result, err := c.CallTool(ctx, tool, args, opts...)
	if err == nil {
		return result
	}
	return c.ErrorForModel(tool, err)
}

// ErrorForModel is the result that [Client.CallToolForModel] makes of the error of a call:
// for an agent loop that calls in another way, such as [Client.CallToolRaw]. tool is the name
// that the model used. An error that is no *mcpvisor.Error counts as a failure of the call.
func (c *Client) ErrorForModel(tool string, err error) *mcp.CallToolResult {
	var similar []string
	if errors.Is(err, mcpvisor.ErrUnknownServer) || errors.Is(err, mcpvisor.ErrUnknownTool) {
		similar = similarTools(c.rt.Snapshot(), tool, preferAliases)
	}
	return modelErrorResult(tool, err, similar...)
}

// modelErrorResult makes a result of an error. similar are names of tools to suggest, in
// the form that the model uses.
func modelErrorResult(tool string, err error, similar ...string) *mcp.CallToolResult {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		e = &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Cause: err}
	}
	m := ModelError{Code: string(e.Kind), Message: modelText(truncateName(tool), e, similar), Retryable: e.Retryable()}
	return &mcp.CallToolResult{
		IsError:           true,
		Content:           []mcp.Content{&mcp.TextContent{Text: m.Message}},
		StructuredContent: m,
	}
}

// maxQuotedName is how many bytes of a tool name that a model made up are repeated.
const maxQuotedName = 128

func truncateName(name string) string {
	if len(name) <= maxQuotedName {
		return name
	}
	return strings.ToValidUTF8(name[:maxQuotedName], "") + "…"
}

// modelText words an error for a model.
func modelText(tool string, e *mcpvisor.Error, similar []string) string {
	switch e.Kind {
	case mcpvisor.KindUnknownTool, mcpvisor.KindUnknownServer:
		if len(similar) > 0 {
			return "There is no tool " + tool + ". Did you mean " + strings.Join(similar, ", ") + "?"
		}
		return "There is no tool " + tool + ". Use one of the tools that you were given."
	case mcpvisor.KindInvalid:
		if errors.Is(e.Cause, errUnbounded) { // a mistake of the program, not of the model
			return internalError + tool + " failed: the call has no timeout"
		}
		text := "The arguments for " + tool + " cannot be used: " + argumentsReason(e)
		if e.Hint != "" && errors.As(e.Cause, new(*ArgumentError)) {
			text += "; " + e.Hint
		}
		return text
	case mcpvisor.KindRPC:
		var rpc *jsonrpc.Error
		if errors.As(e.Cause, &rpc) && (rpc.Code == jsonrpc.CodeInvalidParams || rpc.Code == jsonrpc.CodeMethodNotFound) {
			return tool + " refused the call: " + rpc.Message
		}
		return internalError + tool + " failed: " + failureReason(e)
	}
	text := internalError
	switch e.Kind {
	case mcpvisor.KindUnavailable:
		text += "the server of " + tool + " is not available at the moment" + retryAdvice(e)
	case mcpvisor.KindOverloaded:
		text += "too many calls to the server of " + tool + " are under way" + retryAdvice(e)
	case mcpvisor.KindEvicted:
		text += "the server of " + tool + " has failed too often and was given up."
	case mcpvisor.KindAuthRequired:
		text += "the server of " + tool + " requires authorization, which the user has to give."
	case mcpvisor.KindInputRequired:
		text += "the server of " + tool + " asked for input that it did not get."
	case mcpvisor.KindTimeout:
		text += tool + " did not answer in time."
	case mcpvisor.KindCrashed:
		text += "the server of " + tool + " crashed during the call."
	case mcpvisor.KindCanceled:
		text += "the call of " + tool + " was canceled."
	case mcpvisor.KindClosed:
		text += "the server of " + tool + " was shut down."
	default:
		text += tool + " failed: " + failureReason(e)
	}
	if e.Outcome == mcpvisor.OutcomeUnknown {
		text += " Whether it had an effect is not known; check before you repeat it."
	}
	return text
}

// retryAdvice ends the text of a call that did not run: it may be repeated.
func retryAdvice(e *mcpvisor.Error) string {
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

// argumentsReason says what is wrong with arguments, without the Go types of which the
// errors for programs speak.
func argumentsReason(e *mcpvisor.Error) string {
	switch {
	case errors.Is(e.Cause, errArgumentsNotObject):
		return "they must be a JSON object"
	case errors.Is(e.Cause, errArgumentsNotJSON):
		return fmt.Sprintf("they are not valid JSON, or nested deeper than %d levels", maxArgumentDepth)
	case mentionsGoTypes(e.Cause):
		return "they cannot be written as JSON"
	}
	return failureReason(e)
}

// failureReason says why a call failed.
func failureReason(e *mcpvisor.Error) string {
	if e.Cause == nil {
		return string(e.Kind)
	}
	if e.Kind == mcpvisor.KindProtocol && mentionsGoTypes(e.Cause) {
		return "the server's answer cannot be read"
	}
	return e.Cause.Error()
}

// mentionsGoTypes reports whether an error is about JSON that does not fit Go's types.
// Its text is of no use to a model.
func mentionsGoTypes(err error) bool {
	var (
		typ         *json.UnmarshalTypeError
		unsupported *json.UnsupportedTypeError
		value       *json.UnsupportedValueError
		marshaler   *json.MarshalerError
	)
	return err != nil && (errors.As(err, &typ) || errors.As(err, &unsupported) || errors.As(err, &value) || errors.As(err, &marshaler) ||
		strings.Contains(err.Error(), "json: ") || strings.Contains(err.Error(), "Go value"))
}
