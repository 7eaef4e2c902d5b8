package streamable

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// notifications/elicitation/complete arrives on the response of a call, and is passed to the
// handler Elicited.
func TestElicitationComplete(t *testing.T) {
	for name, modern := range map[string]bool{"modern": true, "legacy": false} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			if modern {
				web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
					writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
				})
			}
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				send := startEvents(w)
				send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\"params\":{\"elicitationId\":\"e8\"}}\n\n")
				send("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, transporttest.DoneResult)
			})
			done := make(chan string, 1)
			h := transport.Handlers{ElicitURL: transporttest.AcceptAtOnce, Elicited: func(_ context.Context, server, id string) { done <- server + " " + id }}
			s := NewDialer(specFor(web.URL).WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: h, Logger: zerolog.Nop()}).NewSession()
			transporttest.ReleaseAtEnd(t, s)
			require.NoError(t, s.Open(t.Context()))
			_, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
			require.NoError(t, err)
			require.Equal(t, "web e8", <-done)
		})
	}
}
