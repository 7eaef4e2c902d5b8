package facade

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/transport"
)

// internalError begins the text of an error that the model cannot avoid by calling
// differently. A prompt may tell the model to give up on those.
const internalError = "Internal Error: "

// ModelError is the structured content of a result that [Client.CallToolForModel] makes of
// an error.
type ModelError struct {
	// Code is the error's kind, as in "unknown_tool", or "refused" if an interceptor has
	// refused the call.
	Code string `json:"code"`
	// Message is the text of the result.
	Message string `json:"message"`
	// Retryable says that the same call may succeed later and that repeating it is safe.
	Retryable bool `json:"isRetryable"`
}

// codeRefused is the Code of a call that an [Interceptor] has refused.
const codeRefused = "refused"

// CallToolForModel is [Client.CallTool] for an agent loop that passes results to a language
// model: it never fails. An error becomes a result with IsError, a text that the model
// can act on, and a [ModelError] as structured content.
//
// Mistakes that the model can correct (a wrong name, wrong arguments) and refusals of an
// [Interceptor] are described plainly. The text of every other error begins with "Internal Error:
// ". It says what happened and whether the tool may have run. It holds no address, network error,
// stack trace or stderr: those are for operators, in the error that [WithObserver] sees. To have
// both, use CallTool and [Client.ErrorForModel].
func (c *Client) CallToolForModel(ctx context.Context, tool string, args any, opts ...CallOption) *mcp.CallToolResult {
	if c.opts.interceptors == nil {
		result, err := c.CallTool(ctx, tool, args, opts...)
		if err == nil {
			return result
		}
		return c.ErrorForModel(tool, err)
	}
	result, ran, err := c.callToolIntercepted(ctx, tool, args, opts)
	if err == nil {
		return result
	}
	return c.errorForModel(tool, err, ran)
}

// ErrorForModel turns the error of a call into the result that [Client.CallToolForModel] would
// return. It is for agent loops that call in another way, such as [Client.CallToolRaw]. tool is
// the name that the model used. An error that wraps no *mcpvisor.Error counts as the refusal of
// an interceptor if the client has one, and otherwise as a failure of the call.
func (c *Client) ErrorForModel(tool string, err error) *mcp.CallToolResult {
	return c.errorForModel(tool, err, false)
}

// errorForModel is ErrorForModel. ran: the server may have executed the call that an
// interceptor refuses.
func (c *Client) errorForModel(tool string, err error, ran bool) *mcp.CallToolResult {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		outcome := mcpvisor.OutcomeNotSent
		if ran {
			outcome = mcpvisor.OutcomeUnknown
		}
		ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		switch {
		case c.opts.interceptors != nil && !ended:
			text := "The call of " + truncateName(tool) + " was refused: " + err.Error()
			return modelResult(ModelError{Code: codeRefused, Message: text + unknownEffect(outcome)})
		case ended:
			e = &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: outcome, Cause: err}
		default:
			return modelResult(ModelError{Code: string(mcpvisor.ErrProtocol), Message: internalError + truncateName(tool) + " failed."})
		}
	}
	var similar []string
	if e.Kind == mcpvisor.ErrUnknownServer || e.Kind == mcpvisor.ErrUnknownTool {
		similar = similarTools(c.rt.Snapshot(), tool, preferAliases)
	}
	return modelErrorResult(tool, e, similar...)
}

// modelErrorResult makes a result of an error. similar are names of tools to suggest, in
// the form that the model uses.
func modelErrorResult(tool string, e *mcpvisor.Error, similar ...string) *mcp.CallToolResult {
	again := e.Retryable() && !errors.Is(e.Cause, actors.ErrStopped)
	return modelResult(ModelError{Code: string(e.Kind), Message: modelText(truncateName(tool), e, similar), Retryable: again})
}

// modelResult makes a result of what a model is told.
func modelResult(m ModelError) *mcp.CallToolResult {
	m.Message, _ = display.ForModel(m.Message)
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

// modelText words an error for a model: what happened, in plain words, and whether the tool
// may have run. Causes are quoted only where the server or the checks of this client have
// worded them for the caller.
func modelText(tool string, e *mcpvisor.Error, similar []string) string {
	switch e.Kind {
	case mcpvisor.ErrUnknownTool, mcpvisor.ErrUnknownServer:
		if len(similar) > 0 {
			return "There is no tool " + tool + ". Did you mean " + strings.Join(similar, ", ") + "?"
		}
		return "There is no tool " + tool + ". Use one of the tools that you were given."
	case mcpvisor.ErrInvalid:
		switch {
		case errors.Is(e.Cause, errUnbounded): // a mistake of the program, not of the model
			return internalError + tool + " failed: the call has no timeout"
		case errors.As(e.Cause, new(*interceptorError)):
			return internalError + "the program that made the call of " + tool + " lost its result." + unknownEffect(e.Outcome)
		}
		text := "The arguments for " + tool + " cannot be used: " + argumentsReason(e)
		if e.Hint != "" && errors.As(e.Cause, new(*ArgumentError)) {
			text += "; " + e.Hint
		}
		return text
	case mcpvisor.ErrDenied:
		text := "The call of " + tool + " was not permitted"
		if e.Cause != nil { // it is fit for a model: see mcpvisor.CallGuard
			text += ": " + display.Shorten(e.Cause.Error(), maxServerReason)
		}
		return text
	case mcpvisor.ErrRPC:
		var rpc *jsonrpc.Error
		if errors.As(e.Cause, &rpc) && (rpc.Code == jsonrpc.CodeInvalidParams || rpc.Code == jsonrpc.CodeMethodNotFound) {
			return tool + " refused the call: " + withoutTrace(rpc.Message)
		}
		if rpc != nil {
			return internalError + tool + " failed: " + withoutTrace(rpc.Message)
		}
		return internalError + tool + " failed: its server answered with an error."
	default:
	}
	if e.Outcome == mcpvisor.OutcomeAnswered {
		return internalError + answeredText(tool, e)
	}
	return internalError + failureText(tool, e) + unknownEffect(e.Outcome)
}

// answeredText words an error about the answer of a server: the tool has run.
func answeredText(tool string, e *mcpvisor.Error) string {
	const ran = " The tool may have run; check before you repeat it."
	switch {
	case e.Kind == mcpvisor.ErrAuthRequired, e.Kind == mcpvisor.ErrUnavailable, e.Kind == mcpvisor.ErrInputRequired, e.Kind == mcpvisor.ErrEvicted:
		return failureText(tool, e) // the server has refused
	case e.Kind == mcpvisor.ErrOverloaded, strings.Contains(e.Hint, "Limits.Max"):
		return "the result of " + tool + " is too large." + ran
	case e.Kind == mcpvisor.ErrTimeout:
		return "reading the result of " + tool + " took too long." + ran
	case e.Kind == mcpvisor.ErrProtocol:
		return "the server of " + tool + " gave no usable answer." + ran
	}
	return failureText(tool, e) + ran
}

// failureText words a failure without an answer.
func failureText(tool string, e *mcpvisor.Error) string {
	switch e.Kind {
	case mcpvisor.ErrUnavailable:
		if errors.Is(e.Cause, actors.ErrStopped) {
			return "an operator has stopped the server of " + tool + "; nothing was done."
		}
		return "the server of " + tool + " is not available at the moment" + retryAdvice(e)
	case mcpvisor.ErrOverloaded:
		return "too many calls to the server of " + tool + " are under way" + retryAdvice(e)
	case mcpvisor.ErrProtocol:
		if e.Outcome == mcpvisor.OutcomeUnknown {
			return "the server of " + tool + " gave no valid answer; perhaps the connection broke."
		}
		return "the server of " + tool + " could not be reached."
	case mcpvisor.ErrCanceled:
		if errors.Is(e, transport.ErrByOperator) {
			return "an operator canceled the call of " + tool + "."
		}
	default:
	}
	if text := failures[e.Kind]; text != "" {
		return fmt.Sprintf(text, tool)
	}
	return tool + " failed."
}

// failures words the kinds of failures without an answer that need no more than the name of the tool.
var failures = map[mcpvisor.ErrorKind]string{
	mcpvisor.ErrEvicted:       "the server of %s has failed too often and was given up.",
	mcpvisor.ErrAuthRequired:  "the server of %s requires authorization, which the user has to give.",
	mcpvisor.ErrInputRequired: "the server of %s asked for input that it did not get.",
	mcpvisor.ErrTimeout:       "%s did not answer in time.",
	mcpvisor.ErrCrashed:       "the server of %s crashed during the call.",
	mcpvisor.ErrEnded:         "the server of %s was restarted or moved during the call.",
	mcpvisor.ErrCanceled:      "the call of %s was canceled.",
	mcpvisor.ErrClosed:        "the server of %s was shut down.",
	mcpvisor.ErrInterrupted:   "the call of %s was interrupted.",
}

// unknownEffect ends the text of a call that the server may have executed.
func unknownEffect(o mcpvisor.Outcome) string {
	if o != mcpvisor.OutcomeUnknown {
		return ""
	}
	return " Whether it had an effect is not known; check before you repeat it."
}

// maxServerReason bounds what the text for a model quotes of an error of a server, in
// bytes.
const maxServerReason = 2000

// traceLine is a line with which a stack trace begins.
var traceLine = regexp.MustCompile(`^(Traceback \(most recent call last\)|goroutine \d+ \[|Stack trace:|stack backtrace:|\s+at .*[(:/\\].*\d\)?\s*$)`)

// withoutTrace returns the message of a server's error up to its stack trace.
func withoutTrace(message string) string {
	message = display.Shorten(message, maxServerReason)
	var kept []string
	for line := range strings.Lines(message) {
		if traceLine.MatchString(line) {
			break
		}
		kept = append(kept, line)
	}
	if text := strings.TrimSpace(strings.Join(kept, "")); text != "" {
		return text
	}
	return "its server answered with an error."
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
	case errors.Is(e.Cause, errArgumentsUnencodable):
		return "they cannot be written as JSON"
	}
	if e.Cause == nil {
		return string(e.Kind)
	}
	return display.Shorten(e.Cause.Error(), maxServerReason)
}
