package transport

import (
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// errNoAnswer is what a server hears if there is no answer and the reason is
// none of its business.
var errNoAnswer = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has no answer"}

// withheld is the error of a handler, which the host may see and the server
// may not.
type withheld struct{ err error }

func (w *withheld) Error() string { return errNoAnswer.Message }

// Unwrap says to the go-sdk what it may say.
func (w *withheld) Unwrap() error { return errNoAnswer }

// errNotOffered refuses what was not declared.
func errNotOffered(what string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client does not offer " + what}
}

// errTooMany refuses what would be more than may wait.
var errTooMany = &jsonrpc.Error{Code: codeTooManyRequests, Message: "too many requests"}

// errNotForClients refuses what is for servers.
var errNotForClients = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "clients do not have this method"}

func isNotOffered(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && rpc.Code == jsonrpc.CodeMethodNotFound
}

// errBadQuestion refuses what is against the protocol.
func errBadQuestion(why string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: why}
}
