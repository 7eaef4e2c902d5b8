package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Input that a server requires, and the answers of the client, pass byte for byte, for each kind of
// request; the client's capabilities are declared, and the handlers of the host are not asked. The client
// gets the requestState sealed, and the server gets it back byte for byte.
func TestRounds_byte_for_byte(t *testing.T) {
	const required = `{"resultType":"input_required","x":1.0,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"\u0041"}}},"requestState":"\u0041<&>é"}`
	const capabilities = `{"elicitation":{"form":{}},"x":1.0}`
	var mu sync.Mutex
	var last string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"resultType":"complete","tools":[{"name":"x","inputSchema":{"type":"object"}}],"prompts":[{"name":"x"}],"resources":[{"uri":"x:y","name":"x"}],"resourceTemplates":[],"ttlMs":0,"cacheScope":"private"}`
		switch m.Method {
		case "server/discover":
			result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"ttlMs":0,"cacheScope":"private","resultType":"complete"}`
		case "tools/call", "prompts/get", "resources/read":
			mu.Lock()
			last = string(body)
			mu.Unlock()
			if result = required; strings.Contains(last, "inputResponses") {
				result = `{"resultType":"complete","content":[],"contents":[],"messages":[]}`
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(web.Close)
	host := facade.WithElicitationHandler(func(context.Context, facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "decline"}, nil
	})
	c := newAskingClient(t, []facade.Option{host}, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraModern, HTTP: &mcpvisor.HTTP{URL: web.URL}})
	s := openRaw(t, Transport(c))
	for method, target := range map[string]string{"tools/call": `"name":"a/x"`, "prompts/get": `"name":"a/x"`, "resources/read": `"uri":"x:y"`} {
		params := func(capabilities, more string) string {
			return `{` + target + more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}`
		}
		answer := s.call(method, params(capabilities, ""))
		require.NoError(t, answer.Error, method)
		state := memberOf(t, answer.Result, "requestState")
		require.Equal(t, strings.Replace(required, `"\u0041<&>é"`, state, 1), string(answer.Result), method)
		require.NotContains(t, state, "<&>", method)
		require.Contains(t, last, `"io.modelcontextprotocol/clientCapabilities":`+capabilities, method)
		const round = `,"inputResponses":{"k":{"action":"accept","content":{"n":1.0}}},"requestState":`
		answer = s.call(method, params(capabilities, round+state))
		require.NoError(t, answer.Error, method)
		require.Contains(t, string(answer.Result), `"resultType":"complete"`, method)
		require.Contains(t, last, round+`"\u0041<&>é"`, method)

		answer = s.call(method, params(`{}`, "")) // the host answers
		require.NoError(t, answer.Error, method)
		require.Contains(t, string(answer.Result), `"resultType":"complete"`, method)
		require.Contains(t, last, `"decline"`, method)

		require.ErrorContains(t, s.call(method, params(capabilities, `,"inputResponses":[]`)).Error, "not an object", method)
	}
}
