package message

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// InvalidParams returns the error of params that cannot be used.
func InvalidParams(text string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}

// InvalidRequest returns the error of a message that cannot be served as a request.
func InvalidRequest(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Busy returns the error of a peer that has reached a limit.
func Busy(what string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeBusy, Message: what + "; try again later. Nothing was done."}
}

// CodeBusy is in the range that JSON-RPC leaves to servers.
const CodeBusy = -32029

// MethodNotFound returns the error of an unknown method.
func MethodNotFound(method string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + Shorten(method)}
}

// maxQuote bounds how much of a text of the peer an error repeats, in bytes.
const maxQuote = 200

// Quote quotes and shortens a text of a peer for an error.
func Quote(text string) string { return strconv.Quote(Shorten(text)) }

// Shorten shortens a text of a peer for an error.
func Shorten(text string) string {
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	return text
}

// NotAnAnswer returns the error of an answer to a question that is not an object.
func NotAnAnswer(key string) *jsonrpc.Error {
	return InvalidParams("the member " + Quote(key) + " of inputResponses is not an object")
}

// The errors of questions that a client is not asked, or whose answer does not come.
var (
	ErrNotAsked  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no call of the client is in flight on whose stream it could be asked; no client was asked"}
	ErrCallEnded = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call of the client has ended, or its connection is gone"}
)
