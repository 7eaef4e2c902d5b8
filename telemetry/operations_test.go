package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// answeredRequest is a call of a listed tool that took a millisecond.
func answeredRequest(server, tool string) mcpvisor.RequestEnd {
	return mcpvisor.RequestEnd{RequestStart: mcpvisor.RequestStart{Server: server, Method: "tools/call", Target: tool, Listed: true,
		Protocol: "2025-11-25"}, Took: time.Millisecond, Outcome: mcpvisor.OutcomeAnswered}
}

// 5,000 tools of a real server leave 1,000 series and one for the rest.
func TestOperations_many_tools(t *testing.T) {
	const tools = 5000
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}}, ExtraTools: tools}))
	listed := f.client.Tools()
	require.Len(t, listed, tools+1)
	for _, tool := range listed[:tools] {
		_, err := f.client.CallToolRaw(t.Context(), tool.Name, json.RawMessage(`{}`))
		require.NoError(t, err)
	}
	calls := f.series(nameClientOperation, keyMethod.String("tools/call"))
	require.Len(t, calls, maxTools+1)
	require.EqualValues(t, tools, f.sum(nameClientOperation, keyMethod.String("tools/call")), "each call is in a series")
	require.EqualValues(t, tools-maxTools, f.sum(nameClientOperation, keyTool.String(mcpvisor.OtherTools)))
}

// Neither tools that fail in many ways nor servers without number exceed the bound of the
// SDK.
func TestOperations_bounds(t *testing.T) {
	f := newFixture(t)
	for tool := range 300 {
		for _, kind := range mcpvisor.ErrorKinds() {
			r := answeredRequest("s", fmt.Sprint("tool", tool))
			r.Err = &mcpvisor.Error{Kind: kind}
			f.observe(r)
		}
	}
	require.LessOrEqual(t, len(f.series(nameClientOperation)), maxToolSeries+len(mcpvisor.ErrorKinds()))
	for server := range 3000 {
		f.observe(answeredRequest(fmt.Sprint("server", server), "echo"))
	}
	all := f.series(nameClientOperation)
	require.LessOrEqual(t, len(all), 2000)
	require.Greater(t, len(all), maxSeries)
	require.EqualValues(t, 3000+300*len(mcpvisor.ErrorKinds()), f.sum(nameClientOperation), "each request is in a series")
}

// Only names that a server lists are reported: others come from a language model.
func TestOperations_names_that_are_not_listed(t *testing.T) {
	f := newFixture(t)
	r := answeredRequest("s", "invented")
	r.Listed = false
	f.observe(r)
	r = answeredRequest("s", "mcptest://text")
	r.Method = "resources/read"
	f.observe(r)
	r = answeredRequest("s", "")
	r.Method, r.Incoming = "invented/method", true
	f.observe(r)
	for _, p := range append(f.series(nameClientOperation), f.series(nameServerOperation)...) {
		require.Empty(t, p.text(keyTool)+p.text(keyPrompt))
		require.NotContains(t, p.attributes.Encoded(attribute.DefaultEncoder()), "invented")
	}
}

// A request that was refused has no duration: it would pull the median to 0.
func TestOperations_refused(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{}))
	_, err := f.client.CallTool(t.Context(), "s/nothing", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	require.Empty(t, f.series(nameClientOperation, keyMethod.String("tools/call")))
	require.EqualValues(t, 1, f.sum(nameRefused, keyErrorType.String("unknown_tool"), keyServer.String("s")))
}

func TestOperations_error_types(t *testing.T) {
	rpc := func(code int64) *mcpvisor.Error {
		return &mcpvisor.Error{Kind: mcpvisor.KindRPC, Cause: &jsonrpc.Error{Code: code, Message: "secret"}}
	}
	for want, r := range map[string]mcpvisor.RequestEnd{
		"":           {},
		"tool_error": {ToolError: true},
		"-32602":     {Err: rpc(-32602)},
		"_OTHER":     {Err: rpc(-31999)},
		"rpc":        {Err: &mcpvisor.Error{Kind: mcpvisor.KindRPC, Cause: errors.New("no code")}},
		"crashed":    {Err: &mcpvisor.Error{Kind: mcpvisor.KindCrashed}},
	} {
		require.Equal(t, want, errorType(&r))
	}
}

// Many goroutines meet new series at a time.
func TestOperations_concurrent(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for tool := range 200 {
				f.observe(answeredRequest("s", fmt.Sprint(tool)))
			}
		})
	}
	wg.Wait()
	require.Len(t, f.series(nameClientOperation), 200)
	require.EqualValues(t, 1600, f.sum(nameClientOperation))
}

// A late answer is counted, and the count outlives the session.
func TestDiscarded_late_answer(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{Faults: []mcptest.Fault{
		{At: mcptest.StageCall, Tool: "echo", Do: mcptest.ActionMalformed, Text: "duplicate"},
	}}))
	_, err := f.client.CallTool(t.Context(), "s/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	unmatched := func() int64 { return f.sum(nameDiscarded, keyDiscarded.String("unmatched")) }
	eventually(t, func() bool { return unmatched() == 1 })
	require.NoError(t, f.client.Restart(t.Context(), "s"))
	require.NoError(t, f.client.WaitReady(t.Context(), "s"))
	require.EqualValues(t, 1, unmatched())
	require.EqualValues(t, 1, f.sum(nameDiscarded), "no other series moves")
}

// A client that was attached late, or whose telemetry is closed at once after it, has all
// ends of its sessions.
func TestClose_counts_the_last_events(t *testing.T) {
	f := newFixture(t)
	f.register(memory("s", mcptest.Script{}))
	require.NoError(t, f.client.Close(context.Background()))
	require.NoError(t, f.tel.Close())
	f.requireEnds("requested")
	require.Empty(t, f.series(nameState), "Close ends what is observed")
}
