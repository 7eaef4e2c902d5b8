package streamable

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// oddNotifications is every notification that the go-sdk's client handles, and
// one that it does not, with parameters that are missing or no object.
func oddNotifications() (lines []string, missing int) {
	for _, method := range []string{"cancelled", "progress", "message", "resources/updated", "elicitation/complete",
		"subscriptions/acknowledged", "tools/list_changed", "prompts/list_changed", "resources/list_changed", "of/our/own"} {
		for _, params := range []string{``, `,"params":null`, `,"params":[]`, `,"params":["x"]`, `,"params":"x"`, `,"params":7`, `,"params":true`} {
			lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/`+method+`"`+params+`}`)
		}
	}
	// The last four may come without parameters.
	return lines, 4 * 2
}

// TestNotification_invalidParams: the go-sdk takes the parameters of a
// notification for granted, in a goroutine of its own. What it would not
// survive, it does not get.
func TestNotification_invalidParams(t *testing.T) {
	lines, missing := oddNotifications()
	t.Run("memory", func(t *testing.T) {
		answered := make(chan struct{})
		s := openPipes(t, transporttest.SendingServer(lines, answered))
		_, err := s.Request(t.Context(), transporttest.TinyCall("a"))
		require.NoError(t, err)
		transporttest.RequireClosed(t, answered, "the go-sdk answers a ping behind them")
		require.EqualValues(t, len(lines)-missing, s.Info().Discarded.Malformed)
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
			say := startEvents(w)
			for _, line := range append(lines, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`) {
				say("data: %s\n\n", line)
			}
			say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, helloResult)
		}))
		s := openSession(t, specFor(web.URL))
		requireServing(t, s)
		transporttest.RequireClosed(t, answered, "the go-sdk answers a ping behind them")
		require.EqualValues(t, len(lines)-missing, s.Info().Discarded.Malformed)
		require.Nil(t, s.Cause())
	})
}
