package jsonrpc

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// ServerError is the error of a request that the server answered with an error
// object; code and data survive in the *sdkrpc.Error. The message is made fit
// to be shown.
func ServerError(raw json.RawMessage) *mcpvisor.Error {
	rpc, err := readRPCError(raw)
	if err != nil {
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("server sent an error member that cannot be read: %w", err)}
	}
	rpc.Message = strings.Clone(display.Shorten(display.Line(rpc.Message), MaxErrorText)) // the line is the reader's
	return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: rpc}
}

// readRPCError reads an error member, each part of it for itself: servers have
// been seen to answer with a bare string, and pass on the codes of their systems
// and whole objects for a message. What is odd about one part does not cost the
// others.
func readRPCError(raw json.RawMessage) (*sdkrpc.Error, error) {
	if text, err := jsonscan.ReadString(raw); err == nil {
		return &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: text}, nil
	}
	rpc := new(sdkrpc.Error)
	odd := ""
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		switch strings.ToLower(key) {
		case "code":
			rpc.Code, odd = readCode(value)
		case "message":
			text, err := jsonscan.ReadString(value)
			if err != nil {
				text = string(value)
			}
			rpc.Message = text
		case "data":
			rpc.Data = append(json.RawMessage(nil), value...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if odd != "" {
		rpc.Message = odd + ": " + rpc.Message
	}
	return rpc, nil
}

// readCode reads a code. One that is no integer is an internal error, and odd is
// what it was.
func readCode(value []byte) (code int64, odd string) {
	text, err := jsonscan.ReadString(value)
	if err != nil {
		text = string(value)
	}
	if text == "" {
		return 0, ""
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, ""
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), ""
	}
	return sdkrpc.CodeInternalError, text
}
