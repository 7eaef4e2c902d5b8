package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// A principal whose sessions fill the queue of a server, and keep it full, delays the call of another one by the
// calls that the server works on and by one more, and takes no room from it.
func TestHandler_principals_in_turn(t *testing.T) {
	const flooding, calls, queued = 3, 10, 8
	step, called := make(chan struct{}), make(chan string)
	server := &rawtest.Server{Answer: func(m *rawtest.Message) string {
		switch m.Method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			select {
			case called <- string(m.Text):
				<-step
			case <-t.Context().Done():
			}
			return `"result":{"content":[]}`
		}
		return rawtest.None
	}}
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: server.Serve}, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: queued}})
	flood, quiet := NewToken(), NewToken()
	_, url := serveHTTP(t, c, WithMaxWait(-1), WithTokens(Token{Principal: "flood", SHA256: HashToken(flood)}, Token{Principal: "quiet", SHA256: HashToken(quiet)}))
	call := func(who string, id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"s__x","arguments":{"who":%q}}}`, id, who)
	}
	client := func(token string) *peer {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+token)
		p.initialize("2025-11-25")
		return p
	}
	var all sync.WaitGroup
	t.Cleanup(func() { close(step) })
	refused := make(chan string, flooding*calls)
	for range flooding {
		p := client(flood)
		for id := range calls {
			all.Go(func() {
				_, answer := p.post(call("flood", id+2))
				if strings.Contains(answer, `"overloaded"`) {
					refused <- answer
				}
			})
		}
	}
	require.Contains(t, <-called, "flood")
	until(t, func() bool { return len(refused) == flooding*calls-queued-1 })
	other := client(quiet)
	all.Go(func() {
		_, answer := other.post(call("quiet", 2))
		require.NotContains(t, answer, "error")
	})
	until(t, func() bool { return len(refused) == flooding*calls-queued }) // one of those that wait made room
	step <- struct{}{}
	require.Contains(t, <-called, "flood")
	step <- struct{}{}
	require.Contains(t, <-called, "quiet", "one round has one call of each")
	for range queued - 2 {
		step <- struct{}{}
		require.Contains(t, <-called, "flood")
	}
	step <- struct{}{}
	all.Wait()
}
