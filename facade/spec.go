package facade

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The values that a user handles, under one roof.
type (
	// ServerSpec says how one server is reached and looked after.
	ServerSpec = messages.ServerSpec
	// Stdio runs a server as a subprocess.
	Stdio = messages.Stdio
	// HTTP reaches a server over Streamable HTTP.
	HTTP = messages.HTTP
	// InMemory runs a server inside this process.
	InMemory = messages.InMemory
	// Timeouts are one server's clocks.
	Timeouts = messages.Timeouts
	// Limits bound what one server may cost.
	Limits = messages.Limits
	// Probe says how liveness is checked.
	Probe = messages.Probe
	// Policy says what follows a crash.
	Policy = supervisor.Policy
	// Tool is one tool, as listed.
	Tool = messages.Tool
	// Resource is one resource, as listed.
	Resource = messages.Resource
	// ResourceTemplate is one resource template, as listed.
	ResourceTemplate = messages.ResourceTemplate
	// Prompt is one prompt, as listed.
	Prompt = messages.Prompt
	// ServerStatus is what is known about a server at one moment.
	ServerStatus = messages.ServerStatus
	// Event is one fact of supervision.
	Event = messages.Event
	// Error is the one error type.
	Error = messages.Error
)

// NoRetry evicts a server at its first end.
var NoRetry = supervisor.NoRetry

// Unlimited, as the number of attempts of [Retry], retries for ever.
const Unlimited = supervisor.Unlimited

// Retry waits base, 2·base, 4·base, … between at most maxAttempts tries in a
// row; see supervisor.Retry for the options.
func Retry(maxAttempts int, base time.Duration, opts ...supervisor.RetryOption) Policy {
	return supervisor.Retry(maxAttempts, base, opts...)
}

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
