package jsonrpc

import (
	"bytes"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// paramsRequired lists the notifications whose params are required by the MCP schema.
var paramsRequired = map[string]bool{
	"notifications/cancelled":                  true,
	"notifications/progress":                   true,
	"notifications/message":                    true,
	"notifications/resources/updated":          true,
	"notifications/elicitation/complete":       true,
	"notifications/subscriptions/acknowledged": true,
}

// WellFormed reports whether a notification may be passed to the go-sdk. Its parameters
// must be an object, and may be missing only where the protocol allows that. The go-sdk
// does not check this: v1.8.0 dereferences the parameters of
// notifications/elicitation/complete in a goroutine of its own, where a panic cannot be
// recovered. Requests of servers do not reach the go-sdk; inbound.Requests serves them.
func WellFormed(r *sdkrpc.Request) bool {
	params := bytes.TrimSpace(r.Params)
	switch {
	case r.IsCall():
		return true
	case len(params) == 0, string(params) == "null":
		return !paramsRequired[r.Method]
	}
	return params[0] == '{'
}
