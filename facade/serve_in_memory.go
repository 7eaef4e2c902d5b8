package facade

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// ServeInMemory makes an in-memory transport of a go-sdk server. Every
// incarnation is a new session of the same server.
func ServeInMemory(server *mcp.Server) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		if server == nil {
			return errors.New("the in-memory server is nil")
		}
		return server.Run(ctx, &mcp.IOTransport{Reader: stdin, Writer: stdout})
	}}
}
