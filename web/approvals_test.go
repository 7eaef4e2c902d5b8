package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestApprovals(t *testing.T) {
	open := []api.Approval{{ID: "1a", Server: "fs", Tool: "write", Arguments: json.RawMessage(`{"a":1,"token":"s3cret-s3cret"}`), Rule: "rule 2", Asked: time.Now(),
		InputResponses: json.RawMessage(`{"q1":{"action":"accept","content":{"key":"s3cret-s3cret"}}}`)}}
	var decided []any
	program := api.Program{Approvals: func() []api.Approval { return slices.Clone(open) }, Mask: func(server, text string) string {
		require.Equal(t, "fs", server)
		return strings.ReplaceAll(text, "s3cret-s3cret", "***")
	}, Decide: func(id string, approve bool, reason string) error {
		if id != "1a" {
			return errors.New("no such question is open")
		}
		decided = append(decided, approve, reason)
		return nil
	}}
	_, s := serveOne(t, "fs", web.WithControls(), web.WithProgram(program))
	_, body := s.do(http.MethodGet, "/api/approvals", "", nil)
	require.Contains(t, body, `"arguments":{"a":1,"token":"***"}`)
	require.Contains(t, body, `"inputResponses":{"q1":{"action":"accept","content":{"key":"***"}}}`)
	_, body = s.do(http.MethodGet, "/api/calls", "", nil)
	require.Contains(t, body, `"arguments":{"a":1,"token":"***"}`)
	require.NotContains(t, body, "s3cret")
	_, body = s.do(http.MethodGet, "/api/status", "", nil)
	require.Contains(t, body, "1 call of fs/write must be approved or denied")
	require.NotContains(t, body, "s3cret")
	open = nil
	_, body = s.do(http.MethodGet, "/api/status", "", nil)
	require.NotContains(t, body, "must be approved")
	response, body := s.do(http.MethodPost, "/api/approvals", `{"id":"1a","approve":true}`, nil)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	response, body = s.do(http.MethodPost, "/api/approvals", `{"id":"1a","reason":"no"}`, nil)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	response, body = s.do(http.MethodPost, "/api/approvals", `{"id":"2","approve":true}`, nil)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Contains(t, body, "no such question is open")
	require.Equal(t, []any{true, "", false, "no"}, decided)
}
