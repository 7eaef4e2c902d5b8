package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// This file translates every error of the go-sdk, of net/http and of the operating system:
// into a *supervisor.Cause if a session ended, and into a *mcpvisor.Error if a request
// ended. The end of one process shows as io.EOF, as a closed connection, as a decode error
// or as a deadline; code outside of this file sees the translated error only.

// CodeUnsupportedVersion is the JSON-RPC error code UnsupportedProtocolVersion
// (2026-07-28, basic).
const CodeUnsupportedVersion = -32022

// OpenCause returns why a handshake with the error err failed. died is the cause of the
// session if it has ended; nil otherwise. died comes first, because it explains err. The
// result is a copy, which the caller may complete.
func OpenCause(ctx context.Context, err error, died *supervisor.Cause) *supervisor.Cause {
	if died != nil {
		return died.Clone() // its errors may be in the hands of callers already
	}
	var already *supervisor.Cause
	if errors.As(err, &already) {
		return already.Clone()
	}
	c := &supervisor.Cause{Kind: supervisor.CauseHandshake, Err: err, Message: "handshake failed: " + err.Error()}
	var rpc *sdkrpc.Error
	switch {
	case errors.As(err, &rpc) && rpc.Code == CodeUnsupportedVersion, IsUnsupportedVersion(err):
		c.Kind, c.Permanent = supervisor.CauseVersion, true
		c.Message = "no protocol version in common: " + err.Error()
	case errors.As(err, &rpc) && isAnswerFault(rpc):
		c.Message = "handshake failed: " + rpc.Message
	case errors.As(err, &rpc):
		c.Message = fmt.Sprintf("server refused the handshake: %s (code %d)", rpc.Message, rpc.Code)
	case ctx.Err() != nil:
		c.Kind = supervisor.CauseTimeout
		c.Message = "server did not finish the handshake in time; raise Timeouts.Start if it is slow to start"
		if errors.Is(ctx.Err(), context.Canceled) {
			c.Kind, c.Message = supervisor.CauseRequested, "start was canceled"
		}
	case errors.Is(err, io.EOF), errors.Is(err, mcp.ErrConnectionClosed):
		c.Kind = supervisor.CauseClosed
		c.Message = "server closed the connection during the handshake"
	}
	c.Message = display.Shorten(display.Line(c.Message), MaxErrorText)
	return c
}

// ExplainCause returns the cause of a failed start with what the process did instead of
// answering: the remarks about its output, an echo of what it received, or an exit without
// any output. Causes that this does not explain are returned unchanged.
func ExplainCause(c *supervisor.Cause, remarks string, echo bool) *supervisor.Cause {
	whole := *c
	switch {
	case c.Kind == supervisor.CauseHandshake && echo:
		whole.Message, whole.Err = "the command writes back what it reads; it is not an MCP server", nil
	case c.Kind == supervisor.CauseTimeout && remarks != "": // to wait longer would not help
		late, _, _ := strings.Cut(c.Message, "; raise ")
		whole.Message = remarks + "; " + late
	case remarks != "" && (c.Kind == supervisor.CauseHandshake || c.Kind == supervisor.CauseClosed || c.Kind == supervisor.CauseExit):
		whole.Message += "; " + remarks
	case c.Kind == supervisor.CauseExit && c.ExitCode != nil && *c.ExitCode == 0 && len(c.Stderr) == 0 && remarks == "":
		whole.Message += "; it ended before the handshake without output; it may not be an MCP server over stdio"
	default:
		return c
	}
	return &whole
}

// isAnswerFault reports whether the session made this error for an answer that cannot be
// used (control.fail in package stdio). Errors that the server sent report false.
func isAnswerFault(rpc *sdkrpc.Error) bool {
	return rpc.Code == sdkrpc.CodeParseError && (strings.HasPrefix(rpc.Message, "the server") || strings.HasPrefix(rpc.Message, "the answer"))
}

// RequestError returns the error of a request that ended without an answer: because the
// session ended (died), because ctx ended, or because of err. KindTimeout is for the
// deadlines of the session only. The end of the caller's context is KindCanceled,
// whatever its cause.
func RequestError(ctx context.Context, died *supervisor.Cause, outcome mcpvisor.Outcome, err error) *mcpvisor.Error {
	switch {
	case died != nil:
		return DeathError(died, outcome)
	case ctx.Err() != nil:
		err, cause := ContextEnd(ctx)
		if cause == ErrOverdue { // not errors.Is: a wrapped ErrOverdue belongs to another call
			return &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: outcome}
		}
		return &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: outcome, Cause: contextError(err, cause)}
	}
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: outcome, Cause: err}
}

// contextError returns the error of a context that ended: context.Canceled or
// context.DeadlineExceeded, with the cause if there is one.
func contextError(err, cause error) error {
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, err):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// DeathError returns the error of a request whose session ended. Its kind follows from the
// cause.
func DeathError(died *supervisor.Cause, outcome mcpvisor.Outcome) *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: outcome, Cause: died, Stderr: died.Stderr}
	switch died.Kind {
	case supervisor.CauseRequested:
		e.Kind = mcpvisor.KindClosed
	case supervisor.CauseAuth:
		e.Kind = mcpvisor.KindAuthRequired
	}
	return e
}

// IsUnsupportedVersion reports whether err is the go-sdk's error for an unsupported
// protocol version. The go-sdk exports neither a type nor a value, so this compares the
// text.
func IsUnsupportedVersion(err error) bool {
	const sdkText = "unsupported protocol version: "
	for ; err != nil; err = errors.Unwrap(err) {
		if len(err.Error()) >= len(sdkText) && err.Error()[:len(sdkText)] == sdkText {
			return true
		}
	}
	return false
}

// ErrOverdue is the cause of an exchange that reached its deadline. It differs from
// mcpvisor.ErrTimeout, because the context of a caller may end with the ErrTimeout of
// another call.
var ErrOverdue = fmt.Errorf("call: %w", mcpvisor.ErrTimeout)

// ErrNotOpen is the cause of a request on a session that is not open yet.
var ErrNotOpen = errors.New("the session is not open yet")
