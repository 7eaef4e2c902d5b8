//go:build linux

package chaos_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
)

// inMemory is a server of this process, for tests in virtual time.
func inMemory(name string, faults ...mcptest.Fault) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{Tools: readable, Faults: faults})}
}

// slowStart delays starts.
func slowStart(d time.Duration, starts ...int) mcptest.Fault {
	return mcptest.Fault{At: mcptest.StageStart, Do: mcptest.ActionDelay, Delay: d, Starts: starts}
}

// steps records what a Run reports.
type steps struct {
	mu  sync.Mutex
	all []chaos.Step
	at  []time.Duration // since the first use
	t0  time.Time
}

func (s *steps) record(step chaos.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.at = append(s.all, step), append(s.at, time.Since(s.t0))
}

// texts returns the texts that are about no fault.
func (s *steps) texts() (texts []string) {
	for _, step := range s.all {
		if step.Fault == "" {
			texts = append(texts, strings.TrimPrefix(step.Server+": "+step.Text, ": "))
		}
	}
	return texts
}

// firstFault returns when a server got its first fault; 0 if it got none.
func (s *steps) firstFault(server string) time.Duration {
	for i, step := range s.all {
		if step.Server == server && step.Fault != "" {
			return s.at[i]
		}
	}
	return 0
}

func reportOf(t *testing.T, r chaos.Report, server string) chaos.ServerReport {
	t.Helper()
	for _, s := range r.Servers {
		if s.Server == server {
			return s
		}
	}
	t.Fatalf("no report about %s", server)
	return chaos.ServerReport{}
}

// A server that starts slowly holds the others for 10 s only, and has its storm when it is ready.
// One that does not start in time has its verdict.
func TestRun_slow_start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &steps{t0: time.Now()}
		report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{inMemory("good"), inMemory("slow", slowStart(25*time.Second, 1)), inMemory("hangs", slowStart(time.Hour))},
			chaos.Options{Duration: 8 * time.Second, Seed: 1, StartTimeout: 40 * time.Second, Progress: seen.record})
		require.NoError(t, err)
		require.Equal(t, []string{
			"waiting for hangs, slow (up to 40s; Options.StartTimeout shortens it)",
			"a storm of 8s for copies of 1 server; later, when ready: hangs, slow",
			"hangs: it was not ready after 40s",
		}, seen.texts())
		require.Greater(t, seen.firstFault("good"), 10*time.Second)
		require.Less(t, seen.firstFault("good"), 12*time.Second)
		require.Greater(t, seen.firstFault("slow"), 25*time.Second)
		for _, name := range []string{"good", "slow"} {
			s := reportOf(t, report, name)
			require.True(t, s.Passed, "%+v", s)
			require.Positive(t, s.Faults[chaos.FaultFlood])
		}
		require.Equal(t, []chaos.Finding{{Kind: chaos.FindingNotStarted, Count: 1, Text: "it was not ready after 40s", Hint: "raise Options.StartTimeout if it is slow to start"}},
			reportOf(t, report, "hangs").Findings)
	})
}

// StartTimeout bounds the return of a server after a fault, too.
func TestRun_slow_return(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{inMemory("lost", slowStart(time.Hour, later(2, 9)...))},
			chaos.Options{Duration: 10 * time.Second, Seed: 1, StartTimeout: 3 * time.Second})
		require.NoError(t, err)
		require.Equal(t, []chaos.FindingKind{chaos.FindingNotRestarted}, kindsOf(report.Servers[0]))
		require.Contains(t, report.Servers[0].Findings[0].Text, "after restart it is ")
		require.Less(t, time.Since(began), 30*time.Second)
	})
}

// A Run that is canceled while a server hangs in a restart does not wait for it, and does not
// blame it.
func TestRun_canceled_in_a_restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var canceled time.Time
		report, err := chaos.Run(ctx, []mcpvisor.ServerSpec{inMemory("lost", slowStart(time.Hour, later(2, 9)...))},
			chaos.Options{Duration: time.Hour, Seed: 1, Progress: func(s chaos.Step) {
				if s.Fault == chaos.FaultRestart {
					time.AfterFunc(5*time.Second, func() { canceled = time.Now(); cancel() })
				}
			}})
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, report.Servers[0].Findings)
		require.Less(t, time.Since(canceled), 15*time.Second, "Timeouts.Shutdown is 5 s")
	})
}

// What has not been tested when a Run is canceled does not pass.
func TestRun_canceled_before_the_storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		report, err := chaos.Run(ctx, []mcpvisor.ServerSpec{inMemory("good"), inMemory("hangs", slowStart(time.Hour))}, chaos.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, s := range report.Servers {
			require.False(t, s.Passed)
			require.Equal(t, []chaos.FindingKind{chaos.FindingNotTested}, kindsOf(s))
		}
	})
}

// A server none of whose calls was answered does not pass.
func TestRun_without_answers(t *testing.T) {
	read := json.RawMessage(`{"readOnlyHint":true}`)
	server := func(name string, def mcptest.ToolDef, faults ...mcptest.Fault) mcpvisor.ServerSpec {
		def.Name, def.Annotations = "look", read
		return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{def}, Faults: faults})}
	}
	refusal := mcptest.Fault{At: mcptest.StageCall, Do: mcptest.ActionError, Text: "no such table"}
	synctest.Test(t, func(t *testing.T) {
		report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{
			server("refuses", mcptest.ToolDef{As: "echo"}, refusal), server("complains", mcptest.ToolDef{Text: "log in first", IsError: true}),
			server("answers", mcptest.ToolDef{As: "echo"}), {Name: "toolless", InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "count"}}})},
		}, chaos.Options{Duration: 5 * time.Second, Seed: 1})
		require.NoError(t, err)
		require.True(t, reportOf(t, report, "answers").Passed)
		toolless := reportOf(t, report, "toolless")
		require.True(t, toolless.Passed, "its lists were read")
		require.Positive(t, toolless.Calls.OK)
		for name, text := range map[string]string{"refuses": "no such table", "complains": "each is an error of the tool; the first: log in first"} {
			s := reportOf(t, report, name)
			require.Equal(t, []chaos.FindingKind{chaos.FindingNoAnswer}, kindsOf(s))
			require.Contains(t, s.Findings[0].Text, text)
			require.NotEmpty(t, s.Findings[0].Hint)
			require.False(t, s.Passed)
		}
	})
}

// Tools that a server does not list, and arguments that a tool does not take, are told before
// any fault.
func TestRun_wrong_tools(t *testing.T) {
	def := mcptest.ToolDef{Name: "search_files", As: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}
	spec := mcpvisor.ServerSpec{Name: "fs", InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{def, {Name: "count"}}})}
	late := mcpvisor.ServerSpec{Name: "late", InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "count"}}, Faults: []mcptest.Fault{slowStart(30 * time.Second)}})}
	for name, c := range map[string]struct {
		call   chaos.ToolCall
		want   string
		faults bool // to others, meanwhile
	}{
		"near":      {chaos.ToolCall{Tool: "fs/search_file"}, `server "fs" lists no tool "fs/search_file"; did you mean fs/search_files?`, false},
		"far":       {chaos.ToolCall{Tool: "fs/convert_currencies"}, `it lists fs/count, fs/search_files`, false},
		"arguments": {chaos.ToolCall{Tool: "fs/search_files", Arguments: json.RawMessage(`{"path":5}`)}, `tool "fs/search_files": argument path must be a string`, false},
		"missing":   {chaos.ToolCall{Tool: "fs/search_files"}, `tool "fs/search_files": argument path`, false},
		"late":      {chaos.ToolCall{Tool: "late/cuont"}, `did you mean late/count?`, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &steps{t0: time.Now()}
				report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{spec, late}, chaos.Options{Seed: 1, Tools: []chaos.ToolCall{c.call}, Progress: seen.record})
				require.ErrorContains(t, err, c.want)
				require.Empty(t, report)
				require.Equal(t, c.faults, seen.firstFault("fs") > 0)
				require.Zero(t, seen.firstFault("late"))
			})
		})
	}
}

// A server over a transport of the caller may have other users: it gets no flood and few calls.
func TestRun_spares_remote_servers(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	open := func(context.Context) (mcp.Transport, error) {
		client, server := mcp.NewInMemoryTransports()
		_, err := m.Connect(context.Background(), server, nil)
		return client, err
	}
	synctest.Test(t, func(t *testing.T) {
		report, err := chaos.Run(t.Context(), []mcpvisor.ServerSpec{{Name: "remote", Transport: &mcpvisor.Transport{New: open, Kind: "ws"}}},
			chaos.Options{Duration: time.Minute, Seed: 1})
		require.NoError(t, err)
		s := report.Servers[0]
		require.True(t, s.Passed, "%+v", s)
		require.Positive(t, s.Faults[chaos.FaultRestart])
		require.Zero(t, s.Faults[chaos.FaultFlood])
		require.Less(t, s.Calls.OK, 300, "about two a second")
		require.Contains(t, s.Notes[0], `of kind "ws", and others may use it: its session is ended and begun again; no kill, no stop, no flood`)
	})
}
