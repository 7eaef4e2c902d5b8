package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

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
