package facade

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// ServeInMemory returns the transport of a go-sdk server that runs inside this process,
// for [mcpvisor.ServerSpec].InMemory. Each incarnation is a new session of the same
// server. A nil server fails at its start.
func ServeInMemory(server *mcp.Server) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		if server == nil {
			return errors.New("the in-memory server is nil")
		}
		return server.Run(ctx, &mcp.IOTransport{Reader: stdin, Writer: stdout})
	}}
}
