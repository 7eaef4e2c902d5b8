package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host before 2026-07-28 waits for a server that starts in the same way, whether or not it answers questions: before
// the server is ready it is not known whether the host will need a process of the older era.

func TestTask_of_a_server_that_starts(t *testing.T) {
	for _, capabilities := range []string{`{"tasks":{}}`, `{"elicitation":{},"tasks":{}}`} {
		key := sessionid.NewKey()
		spec := jobServer("2025-11-25", mcptest.TaskDef{Takes: 50 * time.Millisecond, Durable: true})
		_, first := serveHTTP(t, newClient(t, spec), WithSessionKey(key))
		p := newTasker(t, first, false, capabilities)
		id := p.begin("x")
		start := make(chan struct{})
		spec.InMemory, spec.StartSupervised = gated(spec.InMemory, start), true
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		var next *Server
		next, p.url = serveHTTP(t, c, WithSessionKey(key), WithMaxWait(patience))
		asked := make(chan answer, 1)
		go func() { asked <- p.ask("tasks/get", about(id)) }()
		until(t, func() bool { return next.gateway.heldBytes() > 0 })
		close(start)
		require.Nil(t, (<-asked).Error, capabilities)
	}
}

func TestSubscribe_while_the_server_starts(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		spec := fixture("s", mcptest.Script{Versions: []string{"2025-11-25"}, Resources: []mcptest.ResourceDef{{URI: "mem://r", Name: "r", Text: "x"}}})
		start := make(chan struct{})
		spec.InMemory, spec.StartSupervised = gated(spec.InMemory, start), true
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), spec))
		s := openRaw(t, Transport(c, WithNames(Names{}), WithMaxWait(patience)))
		_ = s.call("initialize", fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"h","version":"1"}}`, capabilities))
		s.notify("notifications/initialized", "{}")
		s.send(1, "resources/subscribe", `{"uri":"mcpvisor://s/mem://r"}`)
		until(t, func() bool { return s.conn.(*connection).account.Used() > 0 })
		close(start)
		for {
			if answer, ok := s.read().(*jsonrpc.Response); ok { // after an update, if the subscription has moved
				require.NoError(t, answer.Error, capabilities)
				break
			}
		}
	}
}
