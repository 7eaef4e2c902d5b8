package mcpvisor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The JSON of a status. Required members and all counts are present when they are zero,
// optional ones are left out.
func TestServerStatus_JSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text, err := json.Marshal(ServerStatus{Name: "fs", State: supervisor.StateConnecting, Since: at, Gen: 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"fs","state":"connecting","since":"2026-01-02T03:04:05Z","gen":1,"epoch":0,"transport":"",
		"target":"","policy":"","attempt":0,"maxAttempts":0,"restarts":0,
		"catalog":{"tools":0,"resources":0,"templates":0,"prompts":0,"hidden":0,"tokens":0},"calls":{"inFlight":0,"queued":0,"total":0,"failed":0},
		"totals":{"starts":0,"ready":0,"uptimeNs":0,"unknown":0,"toolErrors":0,"tasksRecovered":0,"tasksLost":0,"staleMessages":0,
		"discarded":{"malformed":0,"oversize":0,"unmatched":0,"dropped":0}}}`, string(text))

	text, err = json.Marshal(SessionInfo{ProtocolVersion: "2025-11-25", Era: EraLegacy})
	require.NoError(t, err)
	require.JSONEq(t, `{"protocolVersion":"2025-11-25","era":"legacy","discarded":{"malformed":0,"oversize":0,"unmatched":0,"dropped":0}}`, string(text), "nothing was discarded")
	text, err = json.Marshal(SessionInfo{ProtocolVersion: "2025-11-25", Era: EraLegacy, PID: 7, Discarded: Discarded{Malformed: 1, Dropped: 2}})
	require.NoError(t, err)
	require.JSONEq(t, `{"protocolVersion":"2025-11-25","era":"legacy","pid":7,"discarded":{"malformed":1,"oversize":0,"unmatched":0,"dropped":2}}`, string(text))

	three := 3
	text, err = json.Marshal(Incarnation{Epoch: 2, PID: 7, Started: at, Ended: at, Served: true,
		Cause: &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", ExitCode: &three}})
	require.NoError(t, err)
	require.JSONEq(t, `{"epoch":2,"pid":7,"started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:04:05Z","served":true,
		"cause":{"kind":"exit","message":"exit status 3","exitCode":3}}`, string(text))
}

// What one program writes another can read.
func TestServerStatus_JSON_round_trip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	cause := &supervisor.Cause{Kind: supervisor.CauseSignal, Signal: "killed", Message: "killed", Stderr: []string{"bye"}}
	s := ServerStatus{Name: "fs", State: supervisor.StateReady, Since: at, Gen: 1, Epoch: 2, Transport: "stdio", Target: "npx",
		Policy: "no retry", Attempt: 1, MaxAttempts: -1, Restarts: 1, RetryAt: &at, LastCause: cause,
		Session: &SessionInfo{ProtocolVersion: "2026-07-28", Era: EraModern, ServerName: "n", ServerVersion: "v", Instructions: "i",
			PID: 7, Discarded: Discarded{Malformed: 1, Oversize: 2, Unmatched: 3, Dropped: 4}},
		Catalog: CatalogInfo{Tools: 1, Resources: 2, Templates: 3, Prompts: 4, Tokens: 5, Warnings: []Warning{{List: "tools", Text: "w"}}},
		Calls:   CallCounts{InFlight: 1, Total: 2, Failed: 3}, Origin: ".mcp.json:12",
		Totals: Totals{Starts: 3, Ready: 2, Uptime: time.Minute, Ends: map[supervisor.CauseKind]int64{supervisor.CauseExit: 2}, Discarded: Discarded{Unmatched: 1},
			Refused: map[ErrorKind]int64{ErrUnavailable: 1}, Failed: map[ErrorKind]int64{ErrCrashed: 1}, Unknown: 1, StaleMessages: 1},
		History: []Incarnation{{Epoch: 1, PID: 6, Started: at, Ended: at, Cause: cause}}}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var back ServerStatus
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, s, back)
}

func TestTool_TokenEstimate(t *testing.T) {
	schema := `{"type":"object"}`
	definition := &mcp.Tool{Description: strings.Repeat("d", 40), InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(`{"ignored":true}`)}
	tool := Tool{Alias: "mcp__s__t", Definition: definition}
	require.Equal(t, (9+40+len(schema)+3)/4, tool.TokenEstimate())
	definition.InputSchema = map[string]any{"type": "object"}
	require.Equal(t, (9+40+len(schema)+3)/4, tool.TokenEstimate(), "a schema that is no text")
	require.Equal(t, 3, Tool{Alias: "mcp__s__t"}.TokenEstimate())
}
