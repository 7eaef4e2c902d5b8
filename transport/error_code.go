package transport

import (
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Unsupported reports whether a server has said that it does not know a request,
// or not with such parameters: asking again does not help.
func Unsupported(err error) bool {
	code, ok := ErrorCode(err)
	return ok && (code == sdkrpc.CodeMethodNotFound || code == sdkrpc.CodeInvalidParams)
}

// ErrorCode is the code of a JSON-RPC error, if err is one.
func ErrorCode(err error) (int64, bool) {
	var rpc *sdkrpc.Error
	if errors.As(err, &rpc) {
		return rpc.Code, true
	}
	return 0, false
}
