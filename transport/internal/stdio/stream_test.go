package stdio

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// openStream sends a request that stays open, and reads it as the server.
func openStream(t *testing.T, p *peer, cancelGrace time.Duration) (id int64, stop func(), ended <-chan outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int64, 1)
	ended = p.startRequest(ctx, transport.Request{Method: "subscriptions/listen",
		Stream: &transport.Stream{CancelGrace: cancelGrace, Sent: func(id int64) { sent <- id }}})
	m := p.readMessage()
	require.Equal(t, "subscriptions/listen", m.Method)
	require.Equal(t, m.ID, <-sent, "the id is reported before the request is sent")
	return m.ID, cancel, ended
}

// TestStream_ends_with_the_response: a cancelled stream ends when the server answers it.
func TestStream_ends_with_the_response(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	id, stop, ended := openStream(t, p, time.Hour)
	stop()
	m := p.readMessage()
	require.Equal(t, "notifications/cancelled", m.Method)
	require.Contains(t, string(m.Params), "requestId")
	select {
	case <-ended:
		require.FailNow(t, "the stream ended before the server answered")
	case <-time.After(50 * time.Millisecond):
	}
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
	o := <-ended
	require.Equal(t, mcpvisor.KindCanceled, o.err.Kind)
	require.Zero(t, p.discarded.Counts().Unmatched)
}

// TestStream_reports_its_cancellation: what is sent after Cancelled was called follows the
// cancellation.
func TestStream_reports_its_cancellation(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ctx, stop := context.WithCancel(t.Context())
	cancelled := make(chan struct{})
	ended := p.startRequest(ctx, transport.Request{Method: "subscriptions/listen",
		Stream: &transport.Stream{CancelGrace: time.Hour, Cancelled: func() {
			p.postLine(&outgoing{text: []byte(`{"jsonrpc":"2.0","method":"notifications/after"}` + "\n")})
			close(cancelled)
		}}})
	require.Equal(t, "subscriptions/listen", p.readMessage().Method)
	stop()
	require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	require.Equal(t, "notifications/after", p.readMessage().Method)
	<-cancelled
	require.Empty(t, ended, "the wait for a confirmation goes on")
}

// TestStream_cancelled_without_response: a server need not answer a cancelled request
// (MCP, cancellation). The wait ends after CancelGrace, and the cancellation is sent
// once.
func TestStream_cancelled_without_response(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	_, stop, ended := openStream(t, p, 10*time.Millisecond)
	stop()
	require.Equal(t, mcpvisor.KindCanceled, (<-ended).err.Kind)
	other := p.startRequest(t.Context(), transport.Request{Method: "tools/list"})
	require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	m := p.readMessage()
	require.Equal(t, "tools/list", m.Method)
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`, m.ID)
	require.Nil(t, (<-other).err)
}

// TestStream_ends_with_the_session: the end of the session ends the wait for a response
// to a cancelled stream.
func TestStream_ends_with_the_session(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	_, stop, ended := openStream(t, p, time.Hour)
	stop()
	p.end(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 1"})
	require.NotNil(t, (<-ended).err)
}
