package facade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A request of a server reaches the handler, and the answer the server, on every
// transport and in both eras.
func TestServerRequests_on_every_transport(t *testing.T) {
	legacy := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(legacy.Close)
	modern := mcptest.NewHTTP(mcptest.Script{}, mcptest.WithStateless())
	t.Cleanup(modern.Close)
	for name, tc := range map[string]struct {
		spec   mcpvisor.ServerSpec
		rounds int
	}{
		"legacy process": {mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy}, 0},
		"legacy memory":  {mcpvisor.ServerSpec{InMemory: mcptest.InMemory(mcptest.Script{}), Era: mcpvisor.EraLegacy}, 0},
		"legacy HTTP":    {mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: legacy.URL}, Era: mcpvisor.EraLegacy}, 1},
		"modern process": {mcpvisor.ServerSpec{Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraModern}, 3},
		"modern memory":  {mcpvisor.ServerSpec{InMemory: mcptest.InMemory(mcptest.Script{}), Era: mcpvisor.EraModern}, 3},
		"modern HTTP":    {mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: modern.URL}, Era: mcpvisor.EraModern}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			asks := 0
			c := newClient(t, facade.WithRoots(mcp.Root{URI: "file:///a"}),
				facade.WithElicitationHandler(func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
					asks++
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Server}}, nil
				}))
			spec := tc.spec
			spec.Name = "s"
			require.NoError(t, c.Register(t.Context(), spec))
			consult := func(method, params string) (string, error) {
				res, err := c.CallTool(t.Context(), "s/consult", map[string]any{"method": method, "params": json.RawMessage(params), "rounds": tc.rounds})
				if err != nil {
					return "", err
				}
				return res.Content[0].(*mcp.TextContent).Text, nil
			}
			text, err := consult("elicitation/create", wantsText)
			require.NoError(t, err)
			require.JSONEq(t, `{"action":"accept","content":{"name":"s","level":3,"loud":true}}`, text)
			require.Equal(t, max(1, tc.rounds), asks)
			text, err = consult("roots/list", `{}`)
			require.NoError(t, err)
			require.Contains(t, text, "file:///a")

			text, err = consult("sampling/createMessage", wantsSample)
			if spec.Era == mcpvisor.EraModern {
				require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.Equal(t, "s", e.Server)
				require.Contains(t, e.Error(), "WithSamplingHandler")
			} else if err == nil { // the go-sdk's server checks the capabilities itself
				require.Contains(t, text, "sampling")
			}
			res := c.CallToolForModel(t.Context(), "s/consult", json.RawMessage(`{"method":"sampling/createMessage","params":`+wantsSample+`}`))
			require.Equal(t, err != nil, res.IsError)
			_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "still here"})
			require.NoError(t, err)
		})
	}
}

// The error of a handler is the cause of the call's error.
func TestServerRequests_handler_error_reaches_caller(t *testing.T) {
	own := errors.New("the dialog was closed")
	c := newClient(t, facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) { return nil, own }))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}))
	_, err := c.CallTool(t.Context(), "s/consult", map[string]any{"method": "elicitation/create", "params": json.RawMessage(wantsText)})
	require.ErrorIs(t, err, own)
	require.ErrorIs(t, err, mcpvisor.ErrInputRequired)
}

// The error of a call of another server is not sent to the server that asked.
func TestServerRequests_do_not_leak_other_servers_errors(t *testing.T) {
	var c *facade.Client
	c = legacyServer(t, facade.WithElicitationHandler(func(ctx context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		_, err := c.CallToolRaw(ctx, "other/x", nil)
		return nil, err
	}))
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "other", Era: mcpvisor.EraLegacy, HTTP: rawCalls(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"row of patient 17 is locked","data":{"dsn":"pg://u:p@h"}}}`)
	})}))
	_, err := c.CallToolRaw(t.Context(), "other/x", nil)
	var rpc *jsonrpc.Error
	require.True(t, errors.As(err, &rpc), "%v", err)
	response := sendServerRequest(t, c, "elicitation/create", wantsText)
	require.NotContains(t, response, "patient 17")
}
