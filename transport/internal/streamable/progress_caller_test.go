package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// The same over HTTP.
func TestProgress_callbackPanics(t *testing.T) {
	web := newHTTPServer(t)
	canceled := make(chan struct{})
	web.handle("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		close(canceled)
	})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", id)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	r := transporttest.ToolCall
	r.Track, r.Progress = true, func(mcpvisor.Progress) { panic("of the host") }
	require.PanicsWithValue(t, "of the host", func() { _, _ = s.Request(t.Context(), r) })
	transporttest.RequireClosed(t, canceled, "the server is not told")
	require.Eventually(t, func() bool {
		s.exchanges.requests.Mu.Lock()
		defer s.exchanges.requests.Mu.Unlock()
		for id := range s.exchanges.requests.Open {
			if id > 0 {
				return false
			}
		}
		return true
	}, transporttest.Patience, transporttest.TimeStep)
}

// panicking is a RoundTripper of the host's that panics when it is to send a call.
type panicking struct{ http.RoundTripper }

func (p panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Now") != "" && r.Context().Value(panicNow{}) != nil {
		panic("of the host")
	}
	return p.RoundTripper.RoundTrip(r)
}

type panicNow struct{}

// It costs its one request, in whichever goroutine that is made.
func TestHostRoundTripper_panics(t *testing.T) {
	web := newHTTPServer(t)
	spec := specFor(web.URL)
	spec.HTTP.Headers = map[string]string{"X-Now": "1"}
	spec.HTTP.Client = &http.Client{Transport: panicking{web.Client().Transport}}
	s := openSession(t, spec)
	for _, hear := range []func(mcpvisor.Progress){nil, func(mcpvisor.Progress) {}} {
		r := transporttest.ToolCall
		r.Progress = hear
		_, err := s.Request(context.WithValue(transporttest.Context(t), panicNow{}, true), r)
		require.ErrorContains(t, err, "RoundTripper panicked")
		requireServing(t, s)
	}
}
