package facade

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/messages"
)

// ServeInMemory makes an in-memory transport of a go-sdk server. Every
// incarnation is a new session of the same server.
func ServeInMemory(server *mcp.Server) *messages.InMemory {
	return &messages.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		if server == nil {
			return errors.New("the in-memory server is nil")
		}
		return server.Run(ctx, &mcp.IOTransport{Reader: stdin, Writer: stdout})
	}}
}
