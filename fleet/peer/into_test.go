package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// largePair connects node a, which receives results of half a megabyte one at a time on each stream,
// to node b, which answers with such results.
func largePair(t *testing.T) (c *Client, large []byte) {
	large = []byte(`"` + strings.Repeat("x", 500_000) + `"`)
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: localFunc(func(_ context.Context, tool string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
		if tool == "s/large" {
			return large, nil
		}
		return args, nil
	})})
	return connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address, RoomBytes: streamsPerLink * 100_000}), large
}

// used is the room that messages have on all streams of the client.
func used(c *Client) (n int) {
	for _, s := range c.link.Load().streams {
		used, _ := s.Room()
		n += used
	}
	return n
}

// waiting counts the messages that have no room yet.
func waiting(c *Client) (n int) {
	for _, s := range c.link.Load().streams {
		_, waiting := s.Room()
		n += waiting
	}
	return n
}

// TestRoute_Into: results wait at their owner while those before them have not been released, short
// calls do not, and all room is given back.
func TestRoute_Into(t *testing.T) {
	c, large := largePair(t)
	b := budget.New(1, nil)
	first := b.Share()
	got, err := c.Route("s", 1).Into(b, &first).CallToolRaw(within(t), "s/large", nil)
	require.NoError(t, err)
	require.True(t, bytes.Equal(large, got))
	require.EqualValues(t, len(large), b.Used())
	require.Zero(t, used(c))

	const calls = 3 * streamsPerLink
	shares, ended := make([]budget.Share, calls), make(chan int, calls)
	for i := range shares {
		shares[i] = b.Share()
		go func() {
			got, err := c.Route("s", 1).Into(b, &shares[i]).CallToolRaw(within(t), "s/large", nil)
			if err == nil && bytes.Equal(large, got) {
				ended <- i
			}
		}()
	}
	require.Eventually(t, func() bool { return b.Waiting() == streamsPerLink && waiting(c) == calls-streamsPerLink }, 10*time.Second, time.Millisecond,
		"one of each stream has come, and the others have not")
	require.Equal(t, streamsPerLink*len(large), used(c))
	for range 2 * streamsPerLink { // on each stream
		got, err := c.Route("s", 1).CallToolRaw(within(t), "s/echo", []byte("1"))
		require.NoError(t, err)
		require.Equal(t, "1", string(got))
	}
	require.Empty(t, ended)
	first.Release()
	for range calls {
		shares[<-ended].Release()
	}
	require.Zero(t, b.Used())
	require.Eventually(t, func() bool { return used(c) == 0 }, 10*time.Second, time.Millisecond)
}

// TestRoute_Into_ends: the wait of a result for room ends with its context, with its route, and after a
// while in which no room was returned; the room that it holds is given back.
func TestRoute_Into_ends(t *testing.T) {
	c, _ := largePair(t)
	b := budget.New(1, nil)
	first := b.Share()
	_, err := c.Route("s", 1).Into(b, &first).CallToolRaw(within(t), "s/large", nil)
	require.NoError(t, err)
	waits := func() bool { return b.Waiting() > 0 }
	for name, end := range map[string]struct {
		kind error
		call func(share *budget.Share) error
	}{
		"context": {mcpvisor.ErrCanceled, func(share *budget.Share) error {
			ctx, cancel := context.WithCancel(within(t))
			go func() {
				for !waits() {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			_, err := c.Route("s", 1).Into(b, share).CallToolRaw(ctx, "s/large", nil)
			return err
		}},
		"route": {mcpvisor.ErrCanceled, func(share *budget.Share) error {
			over := make(chan struct{})
			go func() {
				for !waits() {
					time.Sleep(time.Millisecond)
				}
				close(over)
			}()
			_, err := c.Route("s", 1).Within(over, time.Time{}).Into(b, share).CallToolRaw(within(t), "s/large", nil)
			return err
		}},
		"time": {mcpvisor.ErrTimeout, func(share *budget.Share) error {
			_, err := c.Route("s", 1).Within(nil, time.Now().Add(2*time.Second)).Into(b, share).CallToolRaw(within(t), "s/large", nil)
			return err
		}},
		"patience": {mcpvisor.ErrOverloaded, func(share *budget.Share) error {
			_, err := c.Route("s", 1).Into(b, share).CallToolRaw(within(t), "s/large", nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			share := b.Share()
			err := end.call(&share)
			require.ErrorIs(t, err, end.kind)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
			require.Zero(t, used(c))
		})
	}
	first.Release()
	require.Zero(t, b.Used())
}
