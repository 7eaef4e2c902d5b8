package jsonrpc

import (
	"bytes"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// paramsRequired are the notifications whose parameters the protocol requires.
var paramsRequired = map[string]bool{
	"notifications/cancelled":                  true,
	"notifications/progress":                   true,
	"notifications/message":                    true,
	"notifications/resources/updated":          true,
	"notifications/elicitation/complete":       true,
	"notifications/subscriptions/acknowledged": true,
}

// WellFormed is the door to the go-sdk, for both kinds of transport. The
// go-sdk's handlers take the parameters of a notification for granted (v1.8.0
// dereferences those of notifications/elicitation/complete, in a goroutine of
// its own, where a panic cannot be recovered): they must be an object, and may be
// missing only where the protocol lets them. Requests do not get there; see
// [serverRequests].
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
