package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The records of the program are searched as the request says; a program without records says so.
func TestRecords(t *testing.T) {
	_, s := serveOne(t, "fs")
	status, body := s.get("/api/records?kind=calls")
	require.Equal(t, http.StatusNotFound, status, body)
	require.Contains(t, body, "--records DIR")

	var asked api.RecordsQuery
	failed := error(nil)
	_, s = serveOne(t, "fs", web.WithProgram(api.Program{Records: func(_ context.Context, q api.RecordsQuery) ([]json.RawMessage, error) {
		asked = q
		return []json.RawMessage{json.RawMessage(`{"seq":2,"kind":"call"}`)}, failed
	}}))
	status, body = s.get("/api/records?kind=calls&q=+echo+&server=fs&unknown=true&since=2026-11-28T15:04:05Z&limit=7")
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"records": [{"seq":2,"kind":"call"}]}`, body)
	require.Equal(t, api.RecordsQuery{Text: "echo", Server: "fs", Unknown: true, Since: time.Date(2026, 11, 28, 15, 4, 5, 0, time.UTC), Last: 7}, asked)
	_, _ = s.get("/api/records?kind=events&limit=100000")
	require.Equal(t, api.RecordsQuery{Events: true, Last: 500}, asked)
	for _, bad := range []string{"", "kind=other", "kind=calls&since=yesterday", "kind=calls&limit=-1"} {
		status, body = s.get("/api/records?" + bad)
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", bad, body)
	}
	failed = errors.New("no such directory")
	status, body = s.get("/api/records?kind=calls")
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, body, "no such directory")
	_, body = s.get("/api/status")
	require.Contains(t, body, `"recorded":true`)
}
