package inbound

import (
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// errNoAnswer is what a server hears if there is no answer and the reason is
// none of its business.
var errNoAnswer = &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: "the client has no answer"}

// hiddenError is the error of a handler, which the host may see and the server
// may not.
type hiddenError struct{ err error }

func (w *hiddenError) Error() string { return errNoAnswer.Message }

// Unwrap says to the go-sdk what it may say.
func (w *hiddenError) Unwrap() error { return errNoAnswer }

// errNotOffered refuses what was not declared.
func errNotOffered(what string) error {
	return &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "this client does not offer " + what}
}

// ErrTooMany refuses what would be more than may wait.
var ErrTooMany = &sdkrpc.Error{Code: CodeTooManyRequests, Message: "too many requests"}

// errUnknownMethod refuses what is for servers.
var errUnknownMethod = &sdkrpc.Error{Code: sdkrpc.CodeMethodNotFound, Message: "clients do not have this method"}

func isNotOffered(err error) bool {
	var rpc *sdkrpc.Error
	return errors.As(err, &rpc) && rpc.Code == sdkrpc.CodeMethodNotFound
}

// errInvalidParams refuses what is against the protocol.
func errInvalidParams(why string) error {
	return &sdkrpc.Error{Code: sdkrpc.CodeInvalidParams, Message: why}
}
