package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a server says of its failure reaches the caller, though its code is none.
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

// Codes and data survive, whatever the HTTP status that they come with.
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

// What another server said is none of this one's business.
func TestServerRequests_do_not_leak_other_servers_errors(t *testing.T) {
	var c *facade.Client
	c = legacyServer(t, facade.WithElicitationHandler(func(ctx context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		_, err := c.CallToolRaw(ctx, "other/x", nil)
		return nil, err
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "other", Era: mcpvisor.EraLegacy, HTTP: &mcpvisor.HTTP{
		URL: rawHTTP(t, func(*http.Request) {}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"row of patient 17 is locked","data":{"dsn":"pg://u:p@h"}}}`)
		}).URL}}))
	_, err := c.CallToolRaw(t.Context(), "other/x", nil)
	var rpc *jsonrpc.Error
	require.True(t, errors.As(err, &rpc), "%v", err)
	heard := asked(t, c, "elicitation/create", wantsText)
	require.NotContains(t, heard, "patient 17")
}

// The hint of an error is about what was called.
func TestReadResource_unreadable_result_hint(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, _ string) string {
		if method == "resources/read" {
			return `{"contents":[null]}`
		}
		return ""
	})}))
	_, err := c.ReadResource(t.Context(), "s", "file:///a")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "CallToolRaw", "that calls tools")
}
