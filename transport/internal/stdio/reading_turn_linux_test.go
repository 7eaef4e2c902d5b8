package stdio

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/poll"
)

// TestReading_releaseTurn: the goroutine that waits for the server during the handshake
// stops after it, without a message of the server.
func TestReading_releaseTurn(t *testing.T) {
	waits := make(chan struct{}, 100)
	p := newHeldPeer(t, osPipe, 1<<20, func(c *conn) {
		c.in.in.OnEmpty = func() bool {
			stop := c.mayStop()
			waits <- struct{}{}
			return stop
		}
	})
	<-waits
	require.Equal(t, turnGoroutine, p.currentTurn())
	p.releaseTurn()
	p.awaitTurn(turnWatch)
	p.requireIdle()
}

// longLine is a connection that the test reads, and whose reader pauses when there is nothing
// to read. stops says whether a goroutine would have ended its turn then.
func longLine(t *testing.T, limit int) (c *conn, send func(text string) (line []byte, err error), stops *bool) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	c = newConn(jsonrpc.NewLifetime(), r, io.Discard, limit)
	t.Cleanup(func() { _ = c.control.Close() })
	c.buffer = budget.New(1<<20, nil)
	c.reading.held, stops = false, new(bool)
	c.in.in.OnEmpty = func() bool {
		*stops = c.mayStop()
		return true
	}
	return c, func(text string) (line []byte, err error) {
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
		line, _, _, err = c.in.next()
		return line, err
	}, stops
}

// TestReading_within_a_large_line: the goroutine stays, and the memory stays reserved,
// however often the reading is interrupted.
func TestReading_within_a_large_line(t *testing.T) {
	c, send, stops := longLine(t, 1<<20)
	_, err := send(`{"a":"`)
	require.ErrorIs(t, err, errPaused)
	require.True(t, *stops, "the beginning of a line keeps no goroutine")

	const piece = 32 << 10 // fits into the pipe
	text := strings.Repeat("x", piece)
	for c.buffer.Used() == 0 {
		_, err = send(text)
		require.ErrorIs(t, err, errPaused)
	}
	for range 3 {
		require.False(t, *stops)
		require.False(t, c.endTurn())
		_, err = send("x")
		require.ErrorIs(t, err, errPaused)
		require.EqualValues(t, len(c.in.buf), c.buffer.Used(), "the line is still held")
	}
	line, err := send("\"}\n")
	require.NoError(t, err)
	require.NotZero(t, c.buffer.Used(), "the line is in use until the next one")
	require.Equal(t, "x\"}", string(line[len(line)-3:]))
	_, err = send("")
	require.ErrorIs(t, err, errPaused)
	require.Zero(t, c.buffer.Used())
	require.True(t, *stops)
	require.True(t, c.endTurn())
	c.stopReading()
}

// TestReading_within_a_skipped_line: the goroutine stays until the line has ended.
func TestReading_within_a_skipped_line(t *testing.T) {
	c, send, stops := longLine(t, 1<<10)
	_, err := send(strings.Repeat("x", 8<<10))
	for range 3 {
		require.ErrorIs(t, err, errPaused)
		require.False(t, *stops)
		require.False(t, c.endTurn())
		_, err = send("x")
	}
	_, err = send("\n")
	require.NoError(t, err)
	_, err = send("")
	require.ErrorIs(t, err, errPaused)
	require.True(t, *stops)
}

// TestReading_leader_disarms_the_poller: an answer that a caller reads for itself wakes no
// other goroutine.
func TestReading_leader_disarms_the_poller(t *testing.T) {
	p := newIdlePeer(t)
	waits, proceed := make(chan struct{}, 100), make(chan struct{})
	wakeups := 0 // owned by the goroutine of the poller, until that is settled
	p.table.Mu.Lock()
	p.reading.watch.Remove()
	p.reading.watch = poll.Shared.Watch(p.reading.stdout, func() { wakeups++; p.readable() })
	armed := p.reading.watch.Arm()
	p.conn.in.in.OnEmpty = func() bool {
		waits <- struct{}{}
		<-proceed
		return p.mayStop()
	}
	p.table.Mu.Unlock()
	require.True(t, armed)
	ended := p.startRequest(context.Background(), transport.Request{Method: "m"})
	id := p.readMessage().ID
	<-waits // the caller has found nothing
	p.answer(id, `{}`)
	settlePoller(t)
	woken := wakeups
	close(proceed)
	require.Nil(t, (<-ended).err)
	require.Zero(t, woken)
}

// settlePoller returns when the shared poller has reported what was readable before.
func settlePoller(t *testing.T) {
	t.Helper()
	for range 2 {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		called := make(chan struct{}, 1)
		watch := poll.Shared.Watch(r, func() { called <- struct{}{} })
		require.True(t, watch.Arm())
		_, err = io.WriteString(w, "x")
		require.NoError(t, err)
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatal("the poller did not report")
		}
		watch.Remove()
		_, _ = r.Close(), w.Close()
	}
}
