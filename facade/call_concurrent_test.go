package facade_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Calls at the same time share pooled memory for their arguments. Each gets the answer to
// its own arguments, even while other callers give up.
func TestCallTool_concurrent_calls_keep_their_arguments(t *testing.T) {
	onEveryTransport(t, func(t *testing.T, spec mcpvisor.ServerSpec) {
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		require.NoError(t, c.Register(t.Context(), spec))
		wrong := make(chan error, 16)
		var wg sync.WaitGroup
		for caller := range 16 {
			wg.Go(func() {
				for call := range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					if caller%4 == 3 {
						go cancel()
					}
					text := strings.Repeat(string(rune('a'+caller)), 1+97*call)
					got, err := c.CallTool(ctx, "s/echo", map[string]any{"text": text})
					cancel()
					switch {
					case caller%4 == 3 && errors.Is(err, mcpvisor.ErrCanceled):
					case err != nil:
						wrong <- err
						return
					case got.Content[0].(*mcp.TextContent).Text != text:
						wrong <- fmt.Errorf("%.20q got %.200q", text, got.Content[0].(*mcp.TextContent).Text)
						return
					}
				}
			})
		}
		wg.Wait()
		close(wrong)
		require.NoError(t, <-wrong)
	})
}
