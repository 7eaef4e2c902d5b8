package facade_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A call that neither a timeout nor its context would ever end is refused, whatever
// switched the timeouts off.
func TestCallTool_without_any_bound_is_refused(t *testing.T) {
	for name, c := range map[string]struct {
		client []facade.Option
		call   []facade.CallOption
	}{
		"by the call":   {nil, []facade.CallOption{facade.WithTimeout(-1)}},
		"by the client": {[]facade.Option{facade.WithDefaultCallTimeout(-1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, c.client...)
			silent := rawServer(func(method, _ string) string {
				if method == "tools/call" || method == "resources/read" {
					return silence
				}
				return ""
			})
			require.NoError(t, client.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: silent, Timeouts: mcpvisor.Timeouts{CallTotal: -1}}))
			endless, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(10*time.Second, cancel) // ends the test of a client that accepts the call
			_, err := client.CallTool(endless, "s/x", nil, c.call...)
			requireRefused(t, err)
			_, err = client.CallTool(endless, "s/x", nil, append(c.call, facade.WithWaitReady())...)
			requireRefused(t, err)
			_, err = client.ReadResource(endless, "s", "file:///x", c.call...)
			requireRefused(t, err)
			result := client.CallToolForModel(endless, "s/x", nil, c.call...)
			require.True(t, result.IsError)
			require.Contains(t, result.StructuredContent.(facade.ModelError).Message, "Internal Error: ", "the arguments are not at fault")

			bounded, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer end()
			_, err = client.CallTool(bounded, "s/x", nil, c.call...)
			require.ErrorIs(t, err, mcpvisor.ErrCanceled, "its deadline ends it")
		})
	}
}

// The call is refused before it waits for a server that may never be ready.
func TestWithWaitReady_without_any_bound_is_refused(t *testing.T) {
	client := newClient(t)
	starting := &mcpvisor.InMemory{Serve: func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		<-ctx.Done()
		return nil
	}}
	require.NoError(t, client.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: starting, StartSupervised: true,
		Timeouts: mcpvisor.Timeouts{Start: -1, CallTotal: -1, Shutdown: 100 * time.Millisecond}}))
	endless, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(10*time.Second, cancel) // ends the test of a client that waits
	_, err := client.CallTool(endless, "s/x", nil, facade.WithWaitReady(), facade.WithTimeout(-1))
	requireRefused(t, err)
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.KindInvalid, e.Kind, err)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	require.ErrorContains(t, err, "Timeouts.CallTotal")
}
