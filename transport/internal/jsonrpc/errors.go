package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
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
	if already, ok := errors.AsType[*supervisor.Cause](err); ok {
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
	c.Message = display.Shorten(display.Line(c.Message), transport.MaxErrorText)
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
	case remarks != "" && (c.Kind == supervisor.CauseClosed || c.Kind == supervisor.CauseExit): // says more than that it ended
		whole.Message = remarks + "; " + c.Message
	case remarks != "" && c.Kind == supervisor.CauseHandshake:
		whole.Message += "; " + remarks
	case c.Kind == supervisor.CauseExit && c.ExitCode != nil && *c.ExitCode == 0 && len(c.Stderr) == 0 && remarks == "":
		whole.Message += "; it ended before the handshake without output; it may not be an MCP server over stdio"
	default:
		return c
	}
	return &whole
}

// isAnswerFault reports whether the session made this error for an answer that cannot be
// used (answer.response in package stdio). Errors that the server sent report false.
func isAnswerFault(rpc *sdkrpc.Error) bool {
	return rpc.Code == sdkrpc.CodeParseError && (strings.HasPrefix(rpc.Message, "the server") || strings.HasPrefix(rpc.Message, "the answer") ||
		strings.HasPrefix(rpc.Message, "server sent an error member"))
}

// RequestError returns the error of a request that ended without an answer: because the
// session ended (died), because ctx ended, or because of err. ErrTimeout is for the
// deadlines of the session only. The end of the caller's context is ErrCanceled,
// whatever its cause.
func RequestError(ctx context.Context, died *supervisor.Cause, outcome mcpvisor.Outcome, err error) *mcpvisor.Error {
	switch {
	case died != nil:
		return transport.DeathError(died, outcome)
	case ctx.Err() != nil:
		err, cause := ContextEnd(ctx)
		if cause == ErrOverdue { // not errors.Is: a wrapped ErrOverdue belongs to another call
			return &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: outcome}
		}
		return &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: outcome, Cause: contextError(err, cause)}
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: outcome, Cause: err}
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

// ServerError returns the error of a request that the server answered with the error
// member raw. The cause is an *sdkrpc.Error with its code and data. The message has no
// control characters and at most transport.MaxErrorText bytes.
func ServerError(raw json.RawMessage) *mcpvisor.Error {
	rpc, err := readRPCError(raw)
	if err != nil {
		return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("server sent an error member that cannot be read: %w", err)}
	}
	rpc.Message = strings.Clone(display.Shorten(display.Line(rpc.Message), transport.MaxErrorText)) // a copy, because the line is reused
	return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: rpc}
}

// readRPCError reads an error member. Some servers send a string instead of an object, a
// code that is not an integer, or an object as the message. Each part is read by itself, so
// that one invalid part does not hide the others.
func readRPCError(raw json.RawMessage) (*sdkrpc.Error, error) {
	if text, err := jsonscan.ReadString(raw); err == nil {
		return &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: text}, nil
	}
	rpc := new(sdkrpc.Error)
	invalidCode := "" // goes into the message
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		switch strings.ToLower(key) {
		case "code":
			rpc.Code, invalidCode = readCode(value)
		case "message":
			text, err := jsonscan.ReadString(value)
			if err != nil {
				text = string(value)
			}
			rpc.Message = text
		case "data":
			rpc.Data = append(json.RawMessage(nil), value...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if invalidCode != "" {
		rpc.Message = invalidCode + ": " + rpc.Message
	}
	return rpc, nil
}

// readCode reads the code of an error. If it is not an integer, code is that of an internal
// error (JSON-RPC 2.0, section 5.1) and invalid is its text.
func readCode(value []byte) (code int64, invalid string) {
	text, err := jsonscan.ReadString(value)
	if err != nil {
		text = string(value)
	}
	if text == "" {
		return 0, ""
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, ""
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), ""
	}
	return sdkrpc.CodeInternalError, text
}

// ExchangeEnd is the context cause of an HTTP exchange that ended before its response was
// read. Err is context.Canceled or context.DeadlineExceeded; Cause says why.
type ExchangeEnd struct{ Err, Cause error }

// Error implements error.
func (e *ExchangeEnd) Error() string { return e.Cause.Error() }

// Is reports true for context.Canceled or context.DeadlineExceeded, whichever Err is.
// net/http and package endpoint use errors.Is to tell the two apart.
func (e *ExchangeEnd) Is(target error) bool { return target == e.Err }

// ContextEnd returns why a context ended: context.Canceled or context.DeadlineExceeded,
// and its cause. Both are nil if the context has not ended.
func ContextEnd(ctx context.Context) (err, cause error) {
	cause = context.Cause(ctx)
	if e, ok := cause.(*ExchangeEnd); ok {
		return e.Err, e.Cause
	}
	return ctx.Err(), cause
}
