package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestWaitEnds(t *testing.T) {
	server := func(name string, state supervisor.State) mcpvisor.ServerStatus {
		return mcpvisor.ServerStatus{Name: name, State: state}
	}
	one, retrying, gone := server("one", supervisor.StateReady), server("two", supervisor.StateBackoff), server("two", supervisor.StateEvicted)
	for _, c := range []struct {
		servers    []mcpvisor.ServerStatus
		ready, any bool
	}{
		{nil, false, false}, // none is registered yet
		{[]mcpvisor.ServerStatus{one}, false, true},
		{[]mcpvisor.ServerStatus{one, retrying}, false, true},
		{[]mcpvisor.ServerStatus{retrying}, false, false},
		{[]mcpvisor.ServerStatus{one, server("two", supervisor.StateReady)}, true, true},
		{[]mcpvisor.ServerStatus{one, gone}, true, true},
		{[]mcpvisor.ServerStatus{gone}, true, false},
		{[]mcpvisor.ServerStatus{server("one", supervisor.StateUnauthorized), gone}, true, true},
		{[]mcpvisor.ServerStatus{server("other", supervisor.StateReady), retrying}, false, false},
	} {
		require.Equal(t, c.ready, waitEnds(waitReady, []string{"one", "two"}, c.servers), "ready: %v", c.servers)
		require.Equal(t, c.any, waitEnds(waitAny, []string{"one", "two"}, c.servers), "any: %v", c.servers)
	}
}

// The note of a server that is not ready says what it waits for, and why it went down.
func TestRunningReason(t *testing.T) {
	now := time.Now()
	soon := now.Add(2 * time.Second)
	cause := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "no such program"}
	for want, s := range map[string]mcpvisor.ServerStatus{
		"starting, 3.0s, waits for its first answer":                          {State: supervisor.StateConnecting},
		"starting, 3.0s, waits for its first answer: no such program":         {State: supervisor.StateConnecting, LastCause: cause},
		"starting, 3.0s, waits for its lists of tools, resources and prompts": {State: supervisor.StateDiscovering},
		"next try in 2.0s: no such program":                                   {State: supervisor.StateBackoff, LastCause: cause, RetryAt: &soon},
		"":                                                                    {State: supervisor.StateReady, LastCause: cause},
	} {
		s.Since = now.Add(-3 * time.Second)
		require.Equal(t, want, runningReason(s, now))
	}
}

// status of a run shows it for a server that is starting.
func TestStatus_starting(t *testing.T) {
	b := startRun(t, map[string]any{"one": entryWith(nil, hangingStart...)}, "run")
	b.await("1 server of ")
	for { // until it is registered
		if _, out, _ := b.command("--json", "status"); strings.Contains(out, `"state": "connecting"`) {
			require.Regexp(t, `"reason": "starting, \S+, waits for its first answer"`, out)
			return
		}
	}
}

// The row of a server counts the processes that run beside it.
func TestStatus_counts_copies(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation{servers.Opener{Invocation: cli.Invocation{Context: t.Context(), Out: &out, Err: &out}}}
	require.NoError(t, inv.printRunning([]statusEntry{{ServerStatus: mcpvisor.ServerStatus{Name: "a", State: supervisor.StateReady, Session: &mcpvisor.SessionInfo{PID: 7}, Copies: []int{8, 9}}}}))
	require.Contains(t, out.String(), " 7 and 2 more ")
}
