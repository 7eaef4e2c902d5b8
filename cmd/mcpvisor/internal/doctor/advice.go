package doctor

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// causeAdvice says what to do about the cause that ended a server's start.
func causeAdvice(s mcpvisor.ServerStatus, spec mcpvisor.ServerSpec) string {
	cause := s.LastCause
	switch kind := cause.Kind; kind {
	case supervisor.CauseConfig, supervisor.CauseSpawn:
		if s.Transport != "stdio" {
			return remoteAdvice(cause, "check the URL, and that the server is running")
		}
		switch {
		case strings.Contains(cause.Message, "is not a directory"):
			return "correct \"cwd\", or create the directory"
		case strings.Contains(cause.Message, "(it begins at"):
			return "write \"${workspaceFolder}/…\" for a program beside the file"
		}
		return "check \"command\": it has to be installed, and be in PATH or be a full path"
	case supervisor.CauseClosed:
		return "the server closed the connection; look at the server's log"
	case supervisor.CauseHandshake, supervisor.CauseProtocol:
		if serverAnswered(cause) {
			return "the server runs, and answered with this error; it may lack a network, a service or a login"
		}
		if s.Transport != "stdio" {
			return remoteAdvice(cause, "check that the URL is the server's MCP endpoint, and look at the server's log")
		}
		return "this does not look like an MCP server; check the command"
	case supervisor.CauseTimeout:
		return timeoutAdvice(cause)
	case supervisor.CauseVersion:
		return "update the server"
	case supervisor.CauseAuth:
		var auth mcpvisor.Auth
		if spec.HTTP != nil {
			auth = spec.HTTP.Auth
		}
		return authAdvice(s, auth)
	default:
	}
	return "try again; if the error stays, report it"
}

// remoteAdvice returns an advice about an endpoint, unless the cause says itself, after a
// semicolon, what to do.
func remoteAdvice(cause *supervisor.Cause, advice string) string {
	if strings.Contains(cause.Message, "; ") {
		return ""
	}
	return advice
}

// serverAnswered reports whether the server ended its start with a JSON-RPC error.
func serverAnswered(cause *supervisor.Cause) bool {
	var rpc *jsonrpc.Error
	return errors.As(cause.Err, &rpc)
}

// timeoutAdvice is about a start that one of the server's own timeouts ended. Its
// stderr, if it has any, is the likelier reason.
func timeoutAdvice(cause *supervisor.Cause) string {
	raise := "raise \"timeouts\": {\"start\": \"2m\"} if it is slow to start, for instance because it downloads first"
	if strings.Contains(cause.Message, `"list"`) {
		raise = "raise \"timeouts\": {\"list\": \"2m\"} if it is slow to list what it offers"
	}
	if len(cause.Stderr) > 0 {
		return "read its stderr; " + raise
	}
	return raise
}

// authAdvice says how a server gets the credentials that it wants. auth is nil
// without OAuth.
func authAdvice(s mcpvisor.ServerStatus, auth mcpvisor.Auth) string {
	config, _ := auth.(*oauth.Config)
	var required *mcpvisor.AuthRequired
	switch {
	case s.Transport == "stdio":
		return "put valid credentials into \"env\""
	case s.Transport != "http": // a WebSocket
		return "put valid credentials into \"headers\""
	case auth == nil:
		return "put valid credentials into \"headers\"; if the server authorizes by OAuth, set \"auth\": {} and run mcpvisor authorize " + s.Name
	case config != nil && config.Grant != "" && config.Grant != oauth.GrantAuthorizationCode:
		return "correct the client in \"auth\""
	case errors.As(s.LastCause, &required) && required.URL == "": // the user cannot consent
		return "correct \"auth\" as the message says, then run mcpvisor authorize " + s.Name
	case errors.As(s.LastCause, &required):
		return "run mcpvisor authorize " + s.Name
	}
	return "run mcpvisor authorize " + s.Name + "; if the server rejects that token too, ask its operator for access"
}
