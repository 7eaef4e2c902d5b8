package streamable

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// LastReceived has a monotonic reading, so that a change of the wall clock does not matter.
// Virtual time has no monotonic reading, so this test runs in real time.
func TestLastReceived_monotonic(t *testing.T) {
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"memory": {Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})},
		"HTTP":   newMemoryTransport(t).spec(),
	} {
		dialer, err := newDialer(spec, transport.Options{ClientInfo: transporttest.ClientInfo})
		require.NoError(t, err)
		s := dialer.NewSession()
		require.Zero(t, s.LastReceived(), name)
		began := time.Now()
		require.NoError(t, s.Open(t.Context()))
		received := s.LastReceived()
		require.Contains(t, received.String(), " m=+", "%s: a monotonic reading", name)
		require.False(t, received.Before(began), name)
		require.False(t, received.After(time.Now()), name)
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
	}
}

// LastReceived is updated by the response header and by every byte of the body, and not
// only by a complete answer.
func TestLastReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			send := startEvents(w)
			time.Sleep(time.Second)
			send(":\n")
			<-r.Context().Done()
		})
		s := openSession(t, web.spec())
		time.Sleep(time.Minute)
		began := time.Now()
		call := transporttest.ToolCall
		call.Timeout = time.Minute
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), call); failed <- err }()
		time.Sleep(time.Second / 2)
		require.True(t, s.LastReceived().Equal(began), "the header")
		time.Sleep(10 * time.Second)
		require.True(t, s.LastReceived().Equal(began.Add(time.Second)), "a comment on the stream")
		require.ErrorIs(t, <-failed, mcpvisor.ErrTimeout)
	})
}
