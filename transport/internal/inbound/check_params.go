package inbound

import (
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// CheckParams is the answer to a request of the server's that holds too much;
// nil if it does not.
func CheckParams(params []byte) error {
	if len(params) < jsonbound.LargeBytes {
		return nil
	}
	if err := jsonrpc.CheckBounds(params, jsonrpc.RequestBounds); err != nil {
		return errInvalidParams("the parameters hold " + err.Error())
	}
	return nil
}
