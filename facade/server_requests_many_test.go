package facade_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// 100 calls whose servers send a request each: more than handlers may run at once.
func TestServerRequests_from_many_calls(t *testing.T) {
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			full := make(chan struct{})
			var inside atomic.Int64
			c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
				if inside.Add(1) == 64 { // the bound; the other requests wait
					time.AfterFunc(200*time.Millisecond, func() { close(full) })
				}
				<-full
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "x"}}, nil
			}))
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: era, InMemory: mcptest.InMemory(mcptest.Script{})}))
			var wg sync.WaitGroup
			var failed atomic.Int64
			var last atomic.Value
			for range 100 {
				wg.Go(func() {
					r, err := c.CallToolRaw(context.Background(), "s/consult", json.RawMessage(`{"method":"elicitation/create","params":`+wantsText+`}`))
					if err != nil {
						failed.Add(1)
						last.Store(err.Error())
					} else if strings.Contains(string(r), "too many") {
						failed.Add(1)
						last.Store(string(r))
					}
				})
			}
			wg.Wait()
			require.Zero(t, failed.Load(), "%v", last.Load())
		})
	}
}
