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

// This file is the door at which every foreign error becomes one of ours: a
// *supervisor.Cause where a session ended, a *mcpvisor.Error where a request
// did. One death wears several masks (io.EOF, a closed connection, a decode
// error, a deadline); code outside of this file does not see them.

// CodeUnsupportedVersion is UnsupportedProtocolVersion (2026-07-28, basic).
const CodeUnsupportedVersion = -32022

// OpenCause explains why negotiation failed. died is the cause of the session's own
// death, if it has one: it explains more than the error that the death caused. The
// result is the caller's own, who may complete it; died and err are not changed.
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

// isAnswerFault reports whether an error is what [control.fail] told the go-sdk about
// an answer that cannot be used, and not what the server said.
func isAnswerFault(rpc *sdkrpc.Error) bool {
	return rpc.Code == sdkrpc.CodeParseError && (strings.HasPrefix(rpc.Message, "the server") || strings.HasPrefix(rpc.Message, "the answer"))
}

// RequestError is the error of a request that ended without an answer:
// because the session died, because ctx ended, or because of err itself. Only
// the session's own clock makes a timeout of it: what ends the caller's context
// is a cancellation, whatever its cause.
func RequestError(ctx context.Context, died *supervisor.Cause, outcome mcpvisor.Outcome, err error) *mcpvisor.Error {
	switch {
	case died != nil:
		return DeathError(died, outcome)
	case ctx.Err() != nil:
		err, cause := ContextEnd(ctx)
		if cause == ErrOverdue { // wrapped, it is another call's
			return &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: outcome}
		}
		return &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: outcome, Cause: contextError(err, cause)}
	}
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: outcome, Cause: err}
}

// contextError is the error of a context that ended: context.Canceled or
// DeadlineExceeded, with the cause that was given.
func contextError(err, cause error) error {
	switch {
	case cause == nil:
		return err
	case errors.Is(cause, err):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// DeathError is the error of a request whose session died.
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

// IsUnsupportedVersion recognises the go-sdk's unexported error of that
// meaning, for which it offers no other handle than its text.
func IsUnsupportedVersion(err error) bool {
	const sdkText = "unsupported protocol version: "
	for ; err != nil; err = errors.Unwrap(err) {
		if len(err.Error()) >= len(sdkText) && err.Error()[:len(sdkText)] == sdkText {
			return true
		}
	}
	return false
}

// ErrOverdue is why an exchange ended whose own time was up. It is a value of
// its own because the cause of a caller's context may be an ErrTimeout of another call.
var ErrOverdue = fmt.Errorf("call: %w", mcpvisor.ErrTimeout)

// ErrNotOpen is the cause of a request on a session that is not open yet.
var ErrNotOpen = errors.New("the session is not open yet")
