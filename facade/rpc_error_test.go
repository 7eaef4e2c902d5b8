package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// The message of a JSON-RPC error reaches the caller although another member is
// malformed.
func TestErrRPC_with_malformed_members(t *testing.T) {
	for errorm, code := range map[string]int64{
		`{"code":"ENOENT","message":"no such file: a.txt","data":{"a":1}}`:        jsonrpc.CodeInternalError,
		`{"code":-32602.0,"message":"no such file: a.txt","data":{"a":1}}`:        -32602,
		`{"code":"-32001","message":"no such file: a.txt","data":{"a":1}}`:        -32001,
		`{"code":null,"message":"no such file: a.txt","data":{"a":1}}`:            0,
		`{"message":"no such file: a.txt","data":{"a":1}}`:                        0,
		`{"code":-32000,"message":{"text":"no such file: a.txt"},"data":{"a":1}}`: -32000,
		`{"code":[],"message":["no such file: a.txt"],"data":{"a":1}}`:            jsonrpc.CodeInternalError,
	} {
		t.Run(errorm, func(t *testing.T) {
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy,
				InMemory: &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
					r := bufio.NewScanner(in)
					for r.Scan() {
						var m incoming
						if json.Unmarshal(r.Bytes(), &m) != nil || m.ID == nil {
							continue
						}
						if m.Method == "tools/call" {
							fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":%s}`+"\n", m.ID, errorm)
							continue
						}
						fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, shakeHands(m.Method))
					}
					return nil
				}}}))
			_, err := c.CallTool(t.Context(), "s/x", nil)
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			require.ErrorContains(t, err, "no such file: a.txt")
			require.Equal(t, strings.Contains(errorm, "ENOENT"), strings.Contains(err.Error(), "ENOENT"))
			var rpc *jsonrpc.Error
			require.ErrorAs(t, err, &rpc)
			require.Equal(t, code, rpc.Code)
			require.JSONEq(t, `{"a":1}`, string(rpc.Data))
		})
	}
}

// Code and data of a JSON-RPC error are kept with every HTTP status.
func TestErrRPC_with_large_data(t *testing.T) {
	for _, status := range []int{200, 400} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			srv := rawHTTP(t, func(*http.Request) {}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad","data":%q}}`, strings.Repeat("x", 100<<10))
			})
			c := newClient(t)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{URL: srv.URL}}))
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
	const size, times = 1 << 20, 8
	data := strings.Repeat("x", size)
	for _, refused := range []string{"initialize", "/list", "resources/subscribe"} {
		var refuses atomic.Bool
		answer := func(m incoming) string {
			if m.Method == "server/discover" || refuses.Load() && strings.HasSuffix(m.Method, refused) {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no","data":%q}}`, m.ID, data)
			}
			result := strings.Replace(shakeHands(m.Method), `"resources":{}`, `"resources":{"subscribe":true}`, 1)
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		for _, overHTTP := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http=%v", refused, overHTTP), func(t *testing.T) {
				spec := mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Policy: supervisor.Retry(1, time.Millisecond), StartSupervised: true}
				if overHTTP {
					spec.HTTP = &mcpvisor.HTTP{URL: answeringHTTP(t, answer)}
				} else {
					spec.InMemory = answeringInMemory(answer)
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
					require.NoError(t, c.Restart(t.Context(), "s"))
					require.NoError(t, c.WaitReady(t.Context(), "s"))
				}
				require.Less(t, heapInUse()-before, 4*size)
				runtime.KeepAlive(c)
			})
		}
	}
}

// answeringInMemory is a server whose answers, as whole lines, answer returns.
func answeringInMemory(answer func(incoming) string) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		r := bufio.NewScanner(in)
		for r.Scan() {
			var m incoming
			if json.Unmarshal(r.Bytes(), &m) != nil || m.ID == nil {
				continue
			}
			if _, err := io.WriteString(out, answer(m)+"\n"); err != nil {
				return err
			}
		}
		return nil
	}}
}

// answeringHTTP is answeringInMemory over Streamable HTTP. It returns the URL.
func answeringHTTP(t *testing.T, answer func(incoming) string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m incoming
		switch err := json.Unmarshal(body, &m); {
		case err != nil || r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer(m))
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
