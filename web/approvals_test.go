package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestApprovals(t *testing.T) {
	open := []api.Approval{{ID: "1a", Server: "fs", Tool: "write", Arguments: json.RawMessage(`{"a":1}`), Rule: "rule 2"}}
	var decided []any
	program := api.Program{Approvals: func() []api.Approval { return open }, Decide: func(id string, approve bool, reason string) error {
		if id != "1a" {
			return errors.New("no such question is open")
		}
		decided = append(decided, approve, reason)
		return nil
	}}
	_, s := serveOne(t, "fs", web.WithControls(), web.WithProgram(program))
	_, body := s.do(http.MethodGet, "/api/approvals", "", nil)
	require.Contains(t, body, `"arguments":{"a":1}`)
	response, body := s.do(http.MethodPost, "/api/approvals", `{"id":"1a","approve":true}`, nil)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	response, body = s.do(http.MethodPost, "/api/approvals", `{"id":"1a","reason":"no"}`, nil)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	response, body = s.do(http.MethodPost, "/api/approvals", `{"id":"2","approve":true}`, nil)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Contains(t, body, "no such question is open")
	require.Equal(t, []any{true, "", false, "no"}, decided)
}
