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

// ServerError returns the error of a request that the server answered with the error
// member raw. The cause is an *sdkrpc.Error with its code and data. The message has no
// control characters and at most MaxErrorText bytes.
func ServerError(raw json.RawMessage) *mcpvisor.Error {
	rpc, err := readRPCError(raw)
	if err != nil {
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("server sent an error member that cannot be read: %w", err)}
	}
	rpc.Message = strings.Clone(display.Shorten(display.Line(rpc.Message), MaxErrorText)) // a copy, because the line is reused
	return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: rpc}
}

// readRPCError reads an error member. Some servers send a string instead of an object, a
// code that is not an integer, or an object as the message. Each part is read by itself, so
// that one invalid part does not hide the others.
func readRPCError(raw json.RawMessage) (*sdkrpc.Error, error) {
	if text, err := jsonscan.ReadString(raw); err == nil {
		return &sdkrpc.Error{Code: sdkrpc.CodeInternalError, Message: text}, nil
	}
	rpc := new(sdkrpc.Error)
	invalidCode := "" // goes into the message
	err := jsonscan.EachMember(raw, func(key string, value []byte) error {
		switch strings.ToLower(key) {
		case "code":
			rpc.Code, invalidCode = readCode(value)
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
	if invalidCode != "" {
		rpc.Message = invalidCode + ": " + rpc.Message
	}
	return rpc, nil
}

// readCode reads the code of an error. If it is not an integer, code is that of an internal
// error (JSON-RPC 2.0, section 5.1) and invalid is its text.
func readCode(value []byte) (code int64, invalid string) {
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
