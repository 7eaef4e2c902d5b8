package telemetry

import (
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.opentelemetry.io/otel/attribute"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Keys of attributes. The first group is from the conventions for MCP, GenAI, RPC and
// networks.
const (
	keyMethod    = attribute.Key("mcp.method.name")
	keyProtocol  = attribute.Key("mcp.protocol.version")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyPrompt    = attribute.Key("gen_ai.prompt.name")
	keyErrorType = attribute.Key("error.type")
	keyTransport = attribute.Key("network.transport")

	keyServer     = attribute.Key("mcpvisor.server.name")
	keyState      = attribute.Key("mcpvisor.server.state")
	keyCause      = attribute.Key("mcpvisor.cause.kind")
	keyDiscarded  = attribute.Key("mcpvisor.discarded.kind")
	keyList       = attribute.Key("mcpvisor.catalog.list")
	keyChange     = attribute.Key("mcpvisor.catalog.change")
	keyRequestEnd = attribute.Key("mcpvisor.request.outcome")
	keyRefusal    = attribute.Key("mcpvisor.refusal.reason")
)

// unknownValue is reported in place of an error code or a method that is not well known,
// as the conventions for error.type have it. Tools, prompts and servers beyond the bounds
// of this package are monitor.OtherTools.
const unknownValue = "_OTHER"

// otherName is the name of tools, prompts and servers that have no series of their own.
const otherName = monitor.OtherTools

// toolError is the error.type of a tool that ran and failed by itself.
const toolError = "tool_error"

// errorType is the error.type of a request: the code of a JSON-RPC error, "tool_error", or
// the [mcpvisor.ErrorKind]; empty for a request that did not fail. Servers choose their
// codes, so only known ones are told apart.
func errorType(r *monitor.RequestEnd) string {
	switch {
	case r.ToolError:
		return toolError
	case r.Err == nil:
		return ""
	case r.Err.Kind != mcpvisor.ErrRPC:
		return string(r.Err.Kind)
	}
	code, ok := rpcCode(r.Err)
	if !ok {
		return string(mcpvisor.ErrRPC)
	}
	if text, known := knownCodes[code]; known {
		return text
	}
	return unknownValue
}

// rpcCode returns the code of the JSON-RPC error in err.
func rpcCode(err error) (int64, bool) {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		return 0, false
	}
	return rpc.Code, true
}

// knownCodes are the codes of JSON-RPC and of MCP, as text.
var knownCodes = func() map[int64]string {
	codes := map[int64]string{}
	for _, code := range []int64{-32700, -32600, -32601, -32602, -32603, // JSON-RPC
		-32000, -32001, -32002, // general error; header mismatch; resource not found
		-32020, -32021, -32022, // 2026-07-28: headers, capabilities, version
		-32042, // URL elicitation required
	} {
		codes[code] = strconv.FormatInt(code, 10)
	}
	return codes
}()

// targetKey is the attribute that holds the target of a method; empty for methods whose
// target is not reported.
func targetKey(method string) attribute.Key {
	switch method {
	case "tools/call":
		return keyTool
	case "prompts/get":
		return keyPrompt
	}
	return ""
}

// networkTransport is the network.transport of a transport of this library; empty if that is unknown.
func networkTransport(transport string) string {
	switch transport {
	case "stdio", "memory":
		return "pipe"
	case "http":
		return "tcp"
	}
	return ""
}
