package inbound

import (
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// CheckParams returns the error response to a request whose parameters hold too many values
// to be decoded; nil if they may be decoded.
func CheckParams(params []byte) error {
	if len(params) < jsonbound.LargeBytes {
		return nil
	}
	if err := jsonrpc.CheckBounds(params, jsonrpc.RequestBounds); err != nil {
		return errInvalidParams("the parameters hold " + err.Error())
	}
	return nil
}
