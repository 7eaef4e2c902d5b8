package mcptest

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// waits reports whether handling the request may block, so that it needs a goroutine of
// its own.
func (s *server) waits(r *request) bool {
	if r.method == "tasks/result" {
		return true
	}
	if r.method != "tools/call" {
		return false
	}
	t, ok := s.catalog.tool(r.params.Name)
	return ok && behaviourOf(t).Blocks
}

// dispatch handles a request. It returns the members of the result, or the error.
// answered means that the caller sends no answer.
func (s *server) dispatch(r *request) (result []byte, failure *jsonrpc.Error, answered bool) {
	if failure = s.checkProtocol(r); failure != nil {
		return nil, failure, false
	}
	if s.undeclared(r.method) {
		return nil, unknownMethod(r.method), false
	}
	switch r.method {
	case "initialize":
		result, failure = s.initialize(r)
	case "server/discover":
		result, failure = s.discover(r)
	case "ping":
	case "logging/setLevel":
		result, failure = s.setLevel(r)
	case "resources/subscribe":
		result, failure = s.subscribe(r, true)
	case "resources/unsubscribe":
		result, failure = s.subscribe(r, false)
	case "subscriptions/listen":
		failure = s.openListen(r)
		return nil, failure, failure == nil
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		result, failure = s.list(r)
	case "resources/read":
		result, failure = s.readResource(r)
	case "prompts/get":
		result, failure = s.getPrompt(r)
	case "tools/call":
		return s.callTool(r)
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel":
		result, failure = s.aboutTask(r)
	default:
		failure = unknownMethod(r.method)
	}
	return result, failure, false
}

// undeclared reports whether the method belongs to a capability that the script
// leaves out.
func (s *server) undeclared(method string) bool {
	family, _, _ := strings.Cut(method, "/")
	switch family {
	case "tools":
		return s.script.NoTools
	case "resources":
		return s.script.NoResources
	case "prompts":
		return s.script.NoPrompts
	}
	return false
}
