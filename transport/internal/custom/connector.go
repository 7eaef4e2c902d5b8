package custom

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// maxLeft is how many connections of one server may be left behind by methods that do not
// return. After that no further one is started: each would be left behind, too.
const maxLeft = 8

// Connector starts the connections of one server. Safe for concurrent use.
type Connector struct {
	server   *mcpvisor.Transport
	redactor redact.Redactor
	left     atomic.Int32 // connections that were released before their methods returned

	mu   sync.Mutex
	last mcp.Transport // what New returned last
}

// NewConnector returns the connector of a server whose specification names the secrets of
// the redactor.
func NewConnector(server *mcpvisor.Transport, redactor redact.Redactor) *Connector {
	return &Connector{server: server, redactor: redactor}
}

// Start begins to connect. It does not block.
func (c *Connector) Start() (process.Process, *supervisor.Cause) {
	if n := c.left.Load(); n >= maxLeft {
		return nil, &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: fmt.Sprintf(
			"%d earlier connections of the host's transport have not returned from Connect, Read, Write or Close; they must return when their context ends, and after Close", n)}
	}
	return newConnection(c), nil
}

// isRepeated records a transport and reports whether New has returned it before. Only
// pointers tell: equal values may be transports of their own.
func (c *Connector) isRepeated(t mcp.Transport) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last
	c.last = t
	kind := reflect.TypeOf(t)
	return kind.Kind() == reflect.Pointer && kind.Elem().Size() > 0 && last == t
}
