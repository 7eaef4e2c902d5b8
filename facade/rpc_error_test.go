package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
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
