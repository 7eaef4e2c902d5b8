package gateway

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Requests that change one subscription take effect in the order in which they were written.
func TestSubscribe_in_order(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{Versions: []string{"2025-11-25"}}))
	transport := Transport(c)
	uri := `{"uri":"` + c.Resources()[0].URI + `"}`
	for range 100 {
		s := openRaw(t, transport)
		s.send(1, "resources/subscribe", uri)
		s.send(2, "resources/unsubscribe", uri)
		s.read()
		s.read()
		conn := s.conn.(*connection)
		require.Zero(t, conn.notify.Count().Subscriptions)
		conn.requests().mu.Lock()
		require.Empty(t, conn.requests().turns)
		conn.requests().mu.Unlock()
		require.NoError(t, s.conn.Close())
	}
}

// Behind Limits.MaxInFlight clients have their turn one after the other: one with many calls delays another one by one
// of them, not by all. That holds for sessions of one principal, too.
func TestTurn_of_clients(t *testing.T) {
	next, order := make(chan struct{}), make(chan string, 10)
	c := newClient(t, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, Limits: mcpvisor.Limits{MaxInFlight: 1}, InMemory: serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		if m.Method == "tools/call" {
			order <- string(m.Params)
			<-next
		}
		return "", nil
	})})
	transport := Transport(c)
	ann, bob := openRaw(t, transport), openRaw(t, transport)
	queued := func(n int64) {
		until(t, func() bool {
			s, ok := c.ServerStatus("a")
			return ok && s.Calls.InFlight == 1 && s.Calls.Queued == n
		})
	}
	for i := range 5 {
		ann.send(float64(i+1), "tools/call", `{"name":"a/x","arguments":{"of":"ann"}}`)
		queued(int64(i))
	}
	bob.send(1, "tools/call", `{"name":"a/x","arguments":{"of":"bob"}}`)
	queued(5)
	close(next)
	var turns []bool // is it bob's?
	for range 6 {
		turns = append(turns, strings.Contains(receive(t, order), `"bob"`))
	}
	require.Equal(t, []bool{false, false, true, false, false, false}, turns)
}
