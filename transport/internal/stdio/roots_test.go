package stdio

import (
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestRoots_changed: a legacy server is notified of changed roots, a modern one is not.
func TestRoots_changed(t *testing.T) {
	p := newPartner(t, false)
	roots := transport.NewRoots([]*mcp.Root{{URI: "file:///a"}})
	s := p.Open(transport.Handlers{Roots: roots})
	p.Send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[{"uri":"file:///a"}]}`, string(p.Next("").Result))
	roots.Set(nil)
	p.Next("notifications/roots/list_changed")
	p.Send(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[]}`, string(p.Next("").Result))

	transporttest.EndSession(t, s)
	require.Eventually(t, func() bool { return roots.Followers() == 0 }, transporttest.Patience, transporttest.TimeStep)

	modern := newPartner(t, true)
	s = modern.Open(transport.Handlers{Roots: roots})
	roots.Set(nil)
	go func() { _, _ = s.Request(t.Context(), transporttest.ToolCall) }()
	modern.Next("tools/call") // no notification before it
}

// TestRoots_changed_in_the_handshake: a server may have requested the roots during the
// handshake, so a change in the handshake is notified, too.
func TestRoots_changed_in_the_handshake(t *testing.T) {
	roots := transport.NewRoots(nil)
	received := make(chan struct{}, 1)
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: replyServer(func(_ io.Writer, e jsonrpc.Envelope) string {
		switch string(e.Method) {
		case `"initialize"`:
			roots.Set(nil)
			return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.LegacyAnswer + `}`
		case `"notifications/roots/list_changed"`:
			received <- struct{}{}
		}
		return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.UnknownMethod + `}`
	})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: transport.Handlers{Roots: roots}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	select {
	case <-received:
	case <-time.After(transporttest.Patience):
		require.Fail(t, "the server is not notified")
	}
}
