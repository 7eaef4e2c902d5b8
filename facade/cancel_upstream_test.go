package facade_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
)

// The end of the caller's context reaches the server, for each kind of request: as a notification
// or, over HTTP since 2026-07-28, as the end of the connection.
func TestCancel_reaches_the_server(t *testing.T) {
	for name, era := range map[string]mcpvisor.Era{"legacy": mcpvisor.EraLegacy, "modern": mcpvisor.EraModern} {
		for _, over := range []string{"memory", "custom", "HTTP"} {
			t.Run(over+" "+name, func(t *testing.T) {
				begun, cancelled := make(chan string, 10), make(chan string, 10)
				spec := mcpvisor.ServerSpec{Name: "s", Era: era}
				switch server := hanging(begun, cancelled); over {
				case "memory":
					spec.InMemory = inMemory(server)
				case "custom":
					spec.Transport = overTransport(inMemory(server))
				default:
					spec.HTTP = overHTTP(t, server)
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

// hanging reports the ids of requests that it does not answer, and of those that are cancelled. Over
// HTTP in the modern era the end of a connection is a cancellation.
func hanging(begun, cancelled chan<- string) *raw.Server {
	return &raw.Server{Answer: func(m *raw.Message) string {
		switch m.Method {
		case "notifications/cancelled":
			var p struct{ RequestID json.RawMessage }
			_ = json.Unmarshal(m.Params, &p)
			cancelled <- string(p.RequestID)
		case "tools/call", "resources/read", "prompts/get", "completion/complete":
			begun <- string(m.ID)
			if m.R != nil {
				<-m.R.Context().Done()
				if m.R.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
					cancelled <- string(m.ID)
				}
			}
			return raw.None
		case "server/discover":
			return `"result":` + rawDiscover
		}
		return rawMembers(m)
	}}
}
