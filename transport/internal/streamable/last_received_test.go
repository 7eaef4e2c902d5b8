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

// LastReceived is updated by an answer, and by progress of a request. A header, a comment, a
// message on another stream and an error page do not show that the server answers requests.
func TestLastReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		step := make(chan string)
		web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			send := startEvents(w)
			for text := range step {
				send(text+"\n\n", id)
			}
			writeResult(w, id, "{}")
		})
		web.handle("ping", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			time.Sleep(time.Millisecond) // the check of the session, after a refused request
			writeResult(w, id, "{}")
		})
		web.handle("prompts/list", replyStatus(500, "text/plain", "no"))
		web.handle("resources/list", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.WriteHeader(http.StatusBadGateway)
			writeError(w, id, -32000, "no backend")
		})
		s := openSession(t, web.spec())
		time.Sleep(time.Minute)
		opened := s.LastReceived()
		ended := make(chan error, 1)
		call := transporttest.ToolCall
		call.Track = true
		go func() { _, err := s.Request(t.Context(), call); ended <- err }()
		for _, text := range []string{": %s", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}`, `data: {"jsonrpc":"2.0","id":"other %s","result":{}}`} {
			step <- text
			time.Sleep(time.Second)
			require.True(t, s.LastReceived().Equal(opened), text)
		}
		for _, method := range []string{"prompts/list", "resources/list"} {
			_, err := s.Request(t.Context(), transport.Request{Method: method})
			require.Error(t, err)
			require.True(t, s.LastReceived().Equal(opened), method)
			time.Sleep(time.Minute) // and the check of the session is over
			opened = s.LastReceived()
		}
		step <- `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`
		synctest.Wait()
		require.True(t, s.LastReceived().Equal(time.Now()), "progress")
		step <- `data: {"jsonrpc":"2.0","id":%s,"result":{}}`
		time.Sleep(time.Second)
		require.NoError(t, <-ended)
		require.True(t, s.LastReceived().Equal(time.Now().Add(-time.Second)), "the answer")
		close(step)
	})
}
