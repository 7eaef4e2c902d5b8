package stdio

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestNoticesThatAreTooManyAreCounted: they are dropped on the way, and a
// host can see that.
func TestNoticesThatAreTooManyAreCounted(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		told := 0
		p.notices.OnNotice(func(transport.Notice) { told++ })
		for range jsonrpc.NotificationBurst + 5 {
			p.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		synctest.Wait()
		require.Equal(t, jsonrpc.NotificationBurst, told)
		require.Equal(t, mcpvisor.Discarded{Dropped: 5}, p.noise.Counts())
	})
}
