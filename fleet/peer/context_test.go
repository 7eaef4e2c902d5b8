package peer

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// TestCallContext: it behaves as the contexts of package context do, and so do those derived from it.
func TestCallContext(t *testing.T) {
	for _, why := range []error{context.Canceled, context.DeadlineExceeded} {
		c := &callContext{}
		_, has := c.Deadline()
		require.False(t, has)
		require.NoError(t, c.Err())
		derived, cancel := context.WithCancel(c)
		ran := make(chan error, 2)
		context.AfterFunc(c, func() { ran <- c.Err() })
		stopped := context.AfterFunc(c, func() { t.Error("it was stopped") })
		require.True(t, stopped())
		require.False(t, stopped())
		c.end(why)
		c.end(errSilent)
		<-c.Done()
		require.Equal(t, why, c.Err())
		require.Equal(t, why, <-ran)
		<-derived.Done()
		require.Equal(t, why, derived.Err())
		context.AfterFunc(c, func() { ran <- c.Err() })
		require.Equal(t, why, <-ran, "when it has ended")
		cancel()
	}
	late := &callContext{until: time.Now()}
	require.Equal(t, context.DeadlineExceeded, late.Err(), "no timer has fired")
	<-late.Done()
}

// TestServer_deadlines: one timer of a stream ends each call at its own deadline, in whatever order they come.
// The callers say nothing: their own contexts do not end.
func TestServer_deadlines(t *testing.T) {
	ended := make(chan error, 4)
	c := pair(t, localFunc(func(ctx context.Context, _ string, _ []byte, _ []facade.CallOption) (json.RawMessage, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, context.Cause(ctx)
	}))
	s := c.link.Load().streams[0]
	begun := time.Now()
	c.link.Load().next.Store(2000) // so that the answers belong to calls that were made and have ended
	for i, left := range []time.Duration{20 * time.Millisecond, 10 * time.Millisecond, time.Hour, 30 * time.Millisecond} {
		request := call{method: methodTool, server: "s", epoch: 1, target: "s/x", left: left}
		s.Send(messageCall, uint64(1000+i), request.append(nil))
	}
	for range 3 {
		require.Equal(t, context.DeadlineExceeded, <-ended)
	}
	require.GreaterOrEqual(t, time.Since(begun), 30*time.Millisecond)
	select {
	case err := <-ended:
		require.Fail(t, "a call whose deadline is far ended", "%v", err)
	default:
	}
}
