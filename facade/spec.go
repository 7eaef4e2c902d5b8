package facade

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/messages"
)

// The values that a user handles, under one roof. Their fields are described
// where they are declared: go doc messages.ServerSpec.
type (
	// ServerSpec says how one server is reached and looked after; see [messages.ServerSpec].
	ServerSpec = messages.ServerSpec
	// Stdio runs a server as a subprocess; see [messages.Stdio].
	Stdio = messages.Stdio
	// HTTP reaches a server over Streamable HTTP; see [messages.HTTP].
	HTTP = messages.HTTP
	// InMemory runs a server inside this process; see [messages.InMemory].
	InMemory = messages.InMemory
	// Timeouts are one server's clocks; see [messages.Timeouts].
	Timeouts = messages.Timeouts
	// ToolFilter says which tools are offered; see [messages.ToolFilter].
	ToolFilter = messages.ToolFilter
	// Limits bound what one server may cost; see [messages.Limits].
	Limits = messages.Limits
	// Probe says how liveness is checked; see [messages.Probe].
	Probe = messages.Probe
	// Tool is one tool, as listed; see [messages.Tool].
	Tool = messages.Tool
	// Resource is one resource, as listed; see [messages.Resource].
	Resource = messages.Resource
	// ResourceTemplate is one resource template, as listed; see [messages.ResourceTemplate].
	ResourceTemplate = messages.ResourceTemplate
	// Prompt is one prompt, as listed; see [messages.Prompt].
	Prompt = messages.Prompt
	// ServerStatus is what is known about a server at one moment; see [messages.ServerStatus].
	ServerStatus = messages.ServerStatus
	// Event is one fact of supervision; see [messages.Event].
	Event = messages.Event
	// Error is the one error type; see [messages.Error].
	Error = messages.Error
)

// ServeInMemory makes an in-memory transport of a go-sdk server. Every
// incarnation is a new session of the same server.
func ServeInMemory(server *mcp.Server) *InMemory {
	return &InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		if server == nil {
			return errors.New("the in-memory server is nil")
		}
		return server.Run(ctx, &mcp.IOTransport{Reader: stdin, Writer: stdout})
	}}
}
