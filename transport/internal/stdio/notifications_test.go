package stdio

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// TestNotifications_params_pass: no notification that the protocol allows counts as malformed.
func TestNotifications_params_pass(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, message := range []string{
		`"notifications/elicitation/complete","params":{"elicitationId":"e"}`,
		`"notifications/of/others"`, `"notifications/of/others","params":null`, `"notifications/of/our/own"`,
	} {
		p.writeLine(`{"jsonrpc":"2.0","method":%s}`, message)
	}
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params": {} }`)
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of nothing"}}`)
	p.writeLine(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.EqualValues(t, 1, p.readMessage().ID)
	require.Zero(t, p.discarded.Counts())
}

// TestNotifications_over_the_rate_limit: log messages over the limit are dropped and
// counted.
func TestNotifications_over_the_rate_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		received := 0
		p.notifications.OnNotice(func(transport.Notice) { received++ })
		for range jsonrpc.NotificationBurst + 5 {
			p.writeLine(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		synctest.Wait()
		require.Equal(t, jsonrpc.NotificationBurst, received)
		require.Equal(t, mcpvisor.Discarded{Dropped: 5}, p.discarded.Counts())
	})
}
