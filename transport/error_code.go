package transport

import (
	"errors"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Unsupported reports whether the server answered that it does not know the method or does
// not accept the parameters. Then a repeated request fails as well.
func Unsupported(err error) bool {
	code, ok := ErrorCode(err)
	return ok && (code == sdkrpc.CodeMethodNotFound || code == sdkrpc.CodeInvalidParams)
}

// ErrorCode returns the code of the JSON-RPC error in the chain of err; false without one.
func ErrorCode(err error) (int64, bool) {
	var rpc *sdkrpc.Error
	if errors.As(err, &rpc) {
		return rpc.Code, true
	}
	return 0, false
}
