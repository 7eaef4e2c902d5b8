package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
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
