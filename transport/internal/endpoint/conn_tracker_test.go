package endpoint

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// The tracker holds exactly the open connections. closeAll closes them, and each connection
// that is dialled later.
func TestConnTracker(t *testing.T) {
	tracker := newConnTracker()
	var peers []net.Conn
	dial := tracker.track(func(context.Context, string, string) (net.Conn, error) {
		mine, peer := net.Pipe()
		peers = append(peers, peer)
		return mine, peer.SetReadDeadline(time.Now().Add(transporttest.Patience))
	})
	closed := func(peer net.Conn) {
		_, err := peer.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	first, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.Empty(t, tracker.open, "a closed connection is removed")
	_, err = dial(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, tracker.open, 1)
	tracker.closeAll()
	closed(peers[1])
	_, err = dial(t.Context(), "", "")
	require.ErrorIs(t, err, net.ErrClosed)
	closed(peers[2])
}
