package streamable

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// oddNotifications returns every notification that the go-sdk's client handles, and one
// that it does not handle, with parameters that are missing or not an object. missing is
// how many of them are valid.
func oddNotifications() (lines []string, valid int) {
	for _, method := range []string{"cancelled", "progress", "message", "resources/updated", "elicitation/complete",
		"subscriptions/acknowledged", "tools/list_changed", "prompts/list_changed", "resources/list_changed", "of/our/own"} {
		for _, params := range []string{``, `,"params":null`, `,"params":[]`, `,"params":["x"]`, `,"params":"x"`, `,"params":7`, `,"params":true`} {
			lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/`+method+`"`+params+`}`)
		}
	}
	// The last four may come without parameters.
	return lines, 4 * 2
}

// Notifications with invalid parameters are discarded, because they would make the go-sdk
// panic in its own goroutine.
func TestNotification_invalidParams(t *testing.T) {
	lines, valid := oddNotifications()
	t.Run("memory", func(t *testing.T) {
		answered := make(chan struct{})
		s := openPipes(t, transporttest.SendingServer(lines, answered))
		_, err := s.Request(t.Context(), transporttest.TinyCall("a"))
		require.NoError(t, err)
		transporttest.RequireClosed(t, answered, "the go-sdk does not answer the ping after the notifications")
		require.EqualValues(t, len(lines)-valid, s.Info().Discarded.Malformed)
		require.Nil(t, s.Cause())
	})
	t.Run("HTTP", func(t *testing.T) {
		web := newHTTPServer(t)
		answered := make(chan struct{})
		web.handle("", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusAccepted)
			close(answered)
		})
		web.handle("tools/call", firstTime(func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			send := startEvents(w)
			for _, line := range append(lines, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`) {
				send("data: %s\n\n", line)
			}
			send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		}))
		s := openSession(t, specFor(web.URL))
		requireServing(t, s)
		transporttest.RequireClosed(t, answered, "the go-sdk does not answer the ping after the notifications")
		require.EqualValues(t, len(lines)-valid, s.Info().Discarded.Malformed)
		require.Nil(t, s.Cause())
	})
}
