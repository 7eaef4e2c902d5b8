package stdio

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestRequestIDs: ids start again at the first one before they exceed 32 bits, and skip
// ids in flight.
func TestRequestIDs(t *testing.T) {
	t.Run("fit_into_32_bits", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		transporttest.LeaveIDs(&p.table.IDs, 5)
		for range 10 {
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true})
			m := p.readMessage()
			require.LessOrEqual(t, m.ID, int64(math.MaxInt32))
			require.GreaterOrEqual(t, m.ID, jsonrpc.FirstID, "apart from the ids of the go-sdk")
			require.Equal(t, m.ID, transporttest.ProgressToken(t, m.Params))
			p.writeLine(`{"id":%d,"result":1}`, m.ID)
			require.Equal(t, outcome{result: "1"}, <-ended)
		}
	})
	t.Run("in_flight_at_the_wrap_over_pipes", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		type open struct {
			transporttest.Message
			ended <-chan outcome
		}
		send := func() open {
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true})
			m := p.readMessage()
			require.Equal(t, m.ID, transporttest.ProgressToken(t, m.Params))
			return open{m, ended}
		}
		old := []open{send(), send(), send()}
		transporttest.LeaveIDs(&p.table.IDs, 1)
		sent := append(old, send(), send(), send())
		require.Equal(t, jsonrpc.EndID-1, sent[3].ID)
		require.Equal(t, jsonrpc.FirstID, sent[4].ID)
		require.Equal(t, jsonrpc.FirstID+4, sent[5].ID, "those between are in flight")
		for i, o := range sent {
			p.writeLine(`{"id":%d,"result":%d}`, o.ID, i)
			require.Equal(t, outcome{result: fmt.Sprint(i)}, <-o.ended)
		}
		require.Zero(t, p.table.Open.Len())
	})
	t.Run("name_of_a_stream_after_the_wrap", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		first := p.startRequest(t.Context(), transport.Request{Method: "m"})
		held := p.readMessage()
		transporttest.LeaveIDs(&p.table.IDs, 0)
		p.table.IDs.Next()
		var named int64
		stream := p.startRequest(t.Context(), transport.Request{Method: "m", Stream: &transport.Stream{Sent: func(id int64) { named = id }}})
		m := p.readMessage()
		p.writeLine(`{"id":%d,"result":2}`, m.ID)
		require.Equal(t, outcome{result: "2"}, <-stream)
		require.Equal(t, jsonrpc.FirstID+2, m.ID)
		require.Equal(t, m.ID, named)
		p.writeLine(`{"id":%d,"result":1}`, held.ID)
		require.Equal(t, outcome{result: "1"}, <-first)
	})
}
