package inbound

import (
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// errNoAnswer is the error that a server gets if the reason must stay with the host.
var errNoAnswer = &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: "the client has no answer"}

// hiddenError is the error of a handler. The host may see it; the server gets errNoAnswer.
type hiddenError struct{ err error }

func (e *hiddenError) Error() string { return errNoAnswer.Message }

// Unwrap returns the error for the server, because the go-sdk writes what errors.As finds.
func (e *hiddenError) Unwrap() error { return errNoAnswer }

// errNotOffered rejects a request for a capability that was not declared.
func errNotOffered(what string) error {
	return &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "this client does not offer " + what}
}

// ErrTooMany rejects a request because too many wait.
var ErrTooMany = &sdkrpc.Error{Code: CodeTooManyRequests, Message: "too many requests"}

// errUnknownMethod rejects a method that clients do not have.
var errUnknownMethod = &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "clients do not have this method"}

// IsEcho reports whether err, an error that a server sent, is the error with which the
// client rejects unknown methods: the server writes back what it reads.
func IsEcho(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Message == errUnknownMethod.Message
}

// isNotOffered reports whether err came from errNotOffered or is errUnknownMethod.
func isNotOffered(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Code == sdkrpc.CodeMethodNotFound
}

// errInvalidParams rejects parameters that violate the protocol.
func errInvalidParams(why string) error {
	return &sdkrpc.Error{Code: sdkrpc.CodeInvalidParams, Message: why}
}
