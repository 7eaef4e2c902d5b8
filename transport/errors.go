package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Unsupported reports whether the server answered that it does not know the method or does
// not accept the parameters. Then a repeated request fails as well.
func Unsupported(err error) bool {
	code, ok := ErrorCode(err)
	return ok && (code == sdkrpc.CodeMethodNotFound || code == sdkrpc.CodeInvalidParams)
}

// ErrorCode returns the code of the JSON-RPC error in the chain of err; false without one.
func ErrorCode(err error) (int64, bool) {
	if rpc, ok := errors.AsType[*sdkrpc.Error](err); ok {
		return rpc.Code, true
	}
	return 0, false
}

// ErrTask is the error of a tool call whose server has made a task instead of answering. The
// result that comes with it is the task; tasks/get asks for what became of it.
var ErrTask = errors.New("the server has made a task of the call")

// TaskFailure is the cause of a request tasks/get that found the task failed: Err is the
// JSON-RPC error of the task (since 2026-07-28), and not one of the request.
type TaskFailure struct{ Err error }

// Error implements error.
func (f *TaskFailure) Error() string { return f.Err.Error() }

// Unwrap returns the error of the task.
func (f *TaskFailure) Unwrap() error { return f.Err }

// An error of a request can be as large as a message, because it carries what the server
// sent: the data of a JSON-RPC error, or a text. The caller of the request gets it whole.
// What is kept beyond that caller, such as the cause of a session's end in the status, in
// events and in histories, has these bounds.
const (
	// MaxErrorText bounds the text of a kept error, in bytes. Longer text is cut.
	MaxErrorText = 4 << 10
	// MaxErrorData bounds the data of a kept JSON-RPC error, in bytes. Longer data is
	// dropped, because JSON that is cut means something else or nothing.
	MaxErrorData = 1 << 10
)

// KeptCause returns a cause whose texts and error have the bounds of what is kept: cause
// itself if it has them already.
func KeptCause(cause *supervisor.Cause) *supervisor.Cause {
	if cause == nil {
		return nil
	}
	smaller, err := keepError(cause.Err)
	if !smaller && len(cause.Message) <= MaxErrorText {
		return cause
	}
	kept := cause.Clone()
	kept.Message, kept.Err = keptText(cause.Message), err
	return kept
}

// KeptError returns an error that may be kept: err itself if it is small. Otherwise the
// result has the text of err, cut at MaxErrorText, and errors.Is and errors.As find in it
// what they find in err, except for errors whose own text is too long, and for the
// certificates in errors of TLS.
func KeptError(err error) error {
	_, kept := keepError(err)
	return kept
}

// keepError is KeptError, and reports whether the result is another error than err. (To
// compare the two may panic.)
func keepError(err error) (smaller bool, kept error) {
	switch e := err.(type) { // it looks at each error of the tree by itself
	case nil:
		return false, nil
	case *sdkrpc.Error:
		return keepRPCError(e)
	case *mcpvisor.Error:
		if e == nil {
			return false, err
		}
		smaller, cause := keepError(e.Cause)
		if !smaller {
			return false, err
		}
		own := *e // several callers may share e
		own.Cause = cause
		return true, &own
	case *supervisor.Cause:
		own := KeptCause(e)
		return own != e, own
	case *tls.CertificateVerificationError: // without the certificates of the peer
		return true, &tls.CertificateVerificationError{Err: KeptError(e.Err)}
	case x509.CertificateInvalidError:
		e.Cert, e.Detail = nil, keptText(e.Detail)
		return true, e
	case x509.UnknownAuthorityError:
		return true, &keptError{keptText(e.Error()), x509.UnknownAuthorityError{}}
	case x509.HostnameError:
		return true, errors.New(keptText(e.Error()))
	case *keptError:
		return false, err
	}
	return keepWrapper(err)
}

// keepRPCError is keepError for an error that a server sent.
func keepRPCError(e *sdkrpc.Error) (smaller bool, kept error) {
	if e == nil || len(e.Data) <= MaxErrorData && len(e.Message) <= MaxErrorText {
		return false, e
	}
	own := &sdkrpc.Error{Code: e.Code, Message: keptText(e.Message)}
	if len(e.Data) <= MaxErrorData {
		own.Data = e.Data
	}
	return true, own
}

// keepWrapper is keepError for errors whose type is not known here. One that keeps more
// than its text and what it wraps makes a copy of itself with WithCause.
func keepWrapper(err error) (smaller bool, kept error) {
	var inner []error
	switch e := err.(type) { // see keepError
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	text := err.Error()
	smaller = len(text) > MaxErrorText || len(inner) > maxJoined
	own := make([]error, 0, min(len(inner), maxJoined))
	for _, one := range inner[:min(len(inner), maxJoined)] {
		changed, one := keepError(one)
		own, smaller = append(own, one), smaller || changed
	}
	if !smaller {
		return false, err
	}
	if e, ok := err.(interface{ WithCause(cause error) error }); ok && len(own) == 1 && len(text) <= MaxErrorText {
		return true, e.WithCause(own[0])
	}
	return true, &keptError{keptText(text), errors.Join(own...)}
}

// maxJoined is how many of the errors that one error joins are kept.
const maxJoined = 16

// keptError is an error with the text of a larger one.
type keptError struct {
	text string
	err  error // what the larger one wraps; may be nil
}

// Error implements error.
func (e *keptError) Error() string { return e.text }

// Unwrap returns what errors.Is and errors.As look at.
func (e *keptError) Unwrap() error { return e.err }

// keptText returns a text of at most MaxErrorText bytes.
func keptText(text string) string { return display.Shorten(text, MaxErrorText) }

// DeathError returns the error of a request whose session ended. Its kind follows from the cause, here and
// nowhere else.
func DeathError(died *supervisor.Cause, outcome mcpvisor.Outcome) *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: outcome, Cause: died, Stderr: died.Stderr}
	switch died.Kind {
	case supervisor.CauseRequested:
		e.Kind = mcpvisor.ErrClosed
	case supervisor.CauseRestart, supervisor.CauseMoved, supervisor.CauseFenced:
		e.Kind = mcpvisor.ErrEnded
	case supervisor.CauseAuth:
		e.Kind = mcpvisor.ErrAuthRequired
	default:
	}
	return e
}
