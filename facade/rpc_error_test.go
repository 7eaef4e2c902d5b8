package facade_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Code and data of a JSON-RPC error are kept with every HTTP status.
func TestErrRPC_with_large_data(t *testing.T) {
	for _, status := range []int{200, 400} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			server := rawCalls(t, "", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad","data":%q}}`, strings.Repeat("x", 100<<10))
			})
			c := registered(t, mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: server})
			_, err := c.CallTool(t.Context(), "s/x", nil)
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			var rpc *jsonrpc.Error
			require.ErrorAs(t, err, &rpc)
			require.Equal(t, int64(-32602), rpc.Code)
			require.Greater(t, len(rpc.Data), 100<<10)
		})
	}
}

// What a server sends in an error is kept for the caller of the failed request and for no one
// else: neither causes, events and histories nor rejected subscriptions hold its data.
func TestErrRPC_data_is_not_kept(t *testing.T) {
	const size, times = 1 << 19, 8
	data := strings.Repeat("x", size)
	for _, refused := range []string{"initialize", "/list", "resources/subscribe"} {
		var refuses atomic.Bool
		server := rawOf(func(method, _ string) string {
			switch {
			case method == "server/discover" || refuses.Load() && strings.HasSuffix(method, refused):
				return fmt.Sprintf(failure+`{"code":-32603,"message":"no","data":%q}`, data)
			case method == "initialize":
				return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`
			}
			return ""
		})
		for _, web := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http=%v", refused, web), func(t *testing.T) {
				spec := mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Policy: supervisor.Retry(1, time.Millisecond), StartSupervised: true}
				if web {
					spec.HTTP = overHTTP(t, server)
				} else {
					spec.InMemory = inMemory(server)
				}
				c := newClient(t)
				refuses.Store(refused != "resources/subscribe")
				before := heapInUse()
				if refuses.Load() {
					for range times {
						require.NoError(t, c.Register(t.Context(), spec))
						require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrEvicted)
						require.NoError(t, c.Unregister(t.Context(), "s"))
					}
				} else {
					require.NoError(t, c.Register(t.Context(), spec))
					require.NoError(t, c.WaitReady(t.Context(), "s"))
					for i := range times {
						require.NoError(t, c.Subscribe(t.Context(), "s", fmt.Sprint("x:", i)))
					}
					refuses.Store(true)
					restart(t, c)
				}
				require.Less(t, heapInUse()-before, 4*size)
				runtime.KeepAlive(c)
			})
		}
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
