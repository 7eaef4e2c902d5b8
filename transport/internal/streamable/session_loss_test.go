package streamable

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// rpcBody returns a JSON-RPC error with this id.
func rpcBody(id, message string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"` + message + `"}}`
}

// A 404 means that the session is lost; any other reply only in the words of an SDK, while the
// server answers pings. The outcome is NotSent only if the server has certainly not acted on the call.
func TestSessionLossOf(t *testing.T) {
	const page = "<!doctype html><h1>404 Not Found</h1>"
	rows := map[string]struct {
		status  int
		kind    string
		body    string
		lost    bool
		outcome mcpvisor.Outcome
	}{
		"404 empty":                      {404, "", "", true, mcpvisor.OutcomeNotSent},
		"404 status text":                {404, "text/plain", "Not Found\n", true, mcpvisor.OutcomeNotSent},
		"404 of net/http":                {404, "text/plain", "404 page not found\n", true, mcpvisor.OutcomeNotSent},
		"404 of FastAPI":                 {404, "application/json", `{"detail":"Not Found"}`, true, mcpvisor.OutcomeNotSent},
		"404 of the go-sdk":              {404, "text/plain", "session not found\n", true, mcpvisor.OutcomeNotSent},
		"404 of the TypeScript SDK":      {404, "application/json", rpcBody("null", "Session not found"), true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK":          {404, "application/json", rpcBody(`"server-error"`, "Not Found: Invalid or expired session ID"), true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK, ended":   {404, "application/json", rpcBody(`"server-error"`, "Not Found: Session has been terminated"), true, mcpvisor.OutcomeNotSent},
		"404 of the Java SDK":            {404, "application/json", `{"message":"Session not found: 41cb0bfd-8e"}`, true, mcpvisor.OutcomeNotSent},
		"404 of mcp-go":                  {404, "text/plain", "Session terminated\n", true, mcpvisor.OutcomeNotSent},
		"404 after work":                 {404, "text/plain", "booked payment 7; receipt template not found", true, mcpvisor.OutcomeUnknown},
		"404 after work, JSON":           {404, "application/json", `{"message":"payment booked; session not found in cache"}`, true, mcpvisor.OutcomeUnknown},
		"404 after work, second line":    {404, "text/plain", "session not found\npayment 7 booked", true, mcpvisor.OutcomeUnknown},
		"404 after work, RPC error":      {404, "application/json", rpcBody("null", "payment booked; browser session not found"), true, mcpvisor.OutcomeUnknown},
		"404 web page":                   {404, "text/html", page, true, mcpvisor.OutcomeUnknown},
		"404 wording no SDK uses":        {404, "text/plain", "Unknown session", true, mcpvisor.OutcomeUnknown},
		"400 of the TypeScript SDK":      {400, "application/json", rpcBody("null", "Bad Request: Server not initialized"), true, mcpvisor.OutcomeNotSent},
		"400 of the Python SDK":          {400, "text/plain", "Bad Request: No valid session ID provided", true, mcpvisor.OutcomeNotSent},
		"400 of mcp-go":                  {400, "text/plain", "Invalid session ID\n", true, mcpvisor.OutcomeNotSent},
		"400 of the Go SDK over SSE":     {400, "text/plain", "session closed\n", true, mcpvisor.OutcomeNotSent},
		"404 of the Python SDK over SSE": {404, "text/plain", "Could not find session", true, mcpvisor.OutcomeNotSent},
		"400 wording no SDK uses":        {400, "text/plain", "Session expired.", false, mcpvisor.OutcomeAnswered},
		"400 wording no SDK uses, JSON":  {400, "application/json", `{"error":"The session does not exist"}`, false, mcpvisor.OutcomeAnswered},
		"400 not initialized":            {400, "application/json", rpcBody("null", "Server has not been initialized"), false, mcpvisor.OutcomeAnswered},
		"400 after work":                 {400, "text/plain", "payment booked; closing the browser session failed", false, mcpvisor.OutcomeAnswered},
		"400 after work, JSON":           {400, "application/json", `{"message":"payment booked; no valid session for the receipt"}`, false, mcpvisor.OutcomeAnswered},
		"400 about another session":      {400, "text/plain", "database session not found", false, mcpvisor.OutcomeAnswered},
		"400 about another thing":        {400, "text/plain", "database not initialized", false, mcpvisor.OutcomeAnswered},
		"400 empty":                      {400, "", "", false, mcpvisor.OutcomeAnswered},
		"400 web page":                   {400, "text/html", "<p>session not found", false, mcpvisor.OutcomeAnswered},
		"400 the session header removed": {400, "application/json", rpcBody("7", "Bad Request: Mcp-Session-Id header is required"), false, mcpvisor.OutcomeAnswered},
		"401 of an old Rust SDK":         {401, "text/plain", "Unauthorized: Session not found", true, mcpvisor.OutcomeNotSent},
		"401 about the token":            {401, "text/plain", "session not found for this token", false, mcpvisor.OutcomeAnswered},
		"500 session":                    {500, "text/plain", "session not found", false, mcpvisor.OutcomeAnswered},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", replyStatus(row.status, row.kind, row.body))
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.Equal(t, row.outcome, e.Outcome, e.Error())
			require.Equal(t, row.lost, s.Cause() != nil, e.Error())
			if row.lost {
				require.Equal(t, mcpvisor.KindCrashed, e.Kind, e.Error())
				require.ErrorContains(t, e, "forgot the session")
			}
			require.Len(t, web.requests("tools/call"), 1)
		})
	}
}

// An error with the id of the request is its answer, whatever the status and the message.
// A 404 whose message means a lost session also ends the session.
func TestSessionLost_answerWithOurID(t *testing.T) {
	rows := []struct {
		name    string
		status  int
		message string
		ends    bool
	}{
		{"404 names a session id", 404, "payment booked; session id of the browser is gone", false},
		{"404 lost session", 404, "Session not found", true},
		{"400 lost session", 400, "Session not found", false},
		{"200 lost session", 200, "Session not found", false},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(row.status)
				writeError(w, id, -32001, row.message)
			})
			s := openSession(t, specFor(web.URL))
			e := requireCallFails(t, s)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome, e.Error())
			require.Equal(t, mcpvisor.KindRPC, e.Kind, e.Error())
			require.Equal(t, row.ends, s.Cause() != nil)
		})
	}
}
