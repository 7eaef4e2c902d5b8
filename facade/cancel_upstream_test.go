package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// The end of the caller's context reaches the server, for each kind of request: as a notification
// or, over HTTP since 2026-07-28, as the end of the connection.
func TestCancel_reaches_the_server(t *testing.T) {
	for name, era := range map[string]mcpvisor.Era{"legacy": mcpvisor.EraLegacy, "modern": mcpvisor.EraModern} {
		for _, over := range []string{"memory", "custom", "HTTP"} {
			t.Run(over+" "+name, func(t *testing.T) {
				begun, cancelled := make(chan string, 10), make(chan string, 10)
				spec := mcpvisor.ServerSpec{Name: "s", Era: era}
				switch memory := hangingServer(begun, cancelled); over {
				case "memory":
					spec.InMemory = memory
				case "custom":
					spec.Transport = overTransport(memory)
				default:
					spec.HTTP = &mcpvisor.HTTP{URL: hangingHTTP(t, begun, cancelled)}
				}
				c := newClient(t)
				require.NoError(t, c.Register(t.Context(), spec))
				for what, send := range map[string]func(ctx context.Context) error{
					"call":   func(ctx context.Context) error { _, err := c.CallToolRaw(ctx, "s/x", nil); return err },
					"read":   func(ctx context.Context) error { _, err := c.ReadResourceRaw(ctx, "s", "x:y"); return err },
					"prompt": func(ctx context.Context) error { _, err := c.GetPromptRaw(ctx, "s/p", nil); return err },
					"complete": func(ctx context.Context) error {
						_, err := c.CompleteRaw(ctx, "s", facade.CompletionRequest{Prompt: "p", Argument: "a"})
						return err
					},
				} {
					ctx, cancel := context.WithCancel(t.Context())
					failed := make(chan error, 1)
					go func() { failed <- send(ctx) }()
					id := <-begun
					cancel()
					require.ErrorIs(t, <-failed, mcpvisor.ErrCanceled, what)
					require.Equal(t, id, <-cancelled, what)
				}
			})
		}
	}
}

// hangs reports whether the servers of these tests leave a request without an answer.
func hangs(method string) bool {
	switch method {
	case "tools/call", "resources/read", "prompts/get", "completion/complete":
		return true
	}
	return false
}

// cancellation is a message, with what a cancellation has.
type cancellation struct {
	incoming
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// answerOf is the result of the servers of these tests for other methods.
func answerOf(method string) string {
	if method == "server/discover" {
		return rawDiscover
	}
	return shakeHands(method)
}

// hangingServer reports the ids of requests that it does not answer, and of those that are cancelled.
func hangingServer(begun, cancelled chan<- string) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return nil //nolint:nilerr // the end
			}
			var m cancellation
			switch {
			case json.Unmarshal(line, &m) != nil:
			case m.Method == "notifications/cancelled":
				cancelled <- string(m.Params.RequestID)
			case m.ID == nil:
			case hangs(m.Method):
				begun <- string(m.ID)
			default:
				_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, answerOf(m.Method))
			}
		}
	}}
}

// hangingHTTP is hangingServer over HTTP. In the modern era the end of a connection is a
// cancellation.
func hangingHTTP(t *testing.T, begun, cancelled chan<- string) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m cancellation
		switch {
		case r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == "notifications/cancelled":
			cancelled <- string(m.Params.RequestID)
			w.WriteHeader(http.StatusAccepted)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case hangs(m.Method):
			begun <- string(m.ID)
			<-r.Context().Done()
			if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
				cancelled <- string(m.ID)
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answerOf(m.Method))
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}
