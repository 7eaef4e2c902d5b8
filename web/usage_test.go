package web_test

import (
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func TestUsage_of_a_process_and_of_a_server_in_memory(t *testing.T) {
	c := newClient(t)
	register(t, c, "memory")
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "process", Stdio: mcptest.Stdio(mcptest.Script{})}))
	s := serve(t, c)
	answer := decoded[api.Usage](s, "/api/usage", http.StatusOK)
	require.EqualValues(t, 1, answer.Seq)
	require.NotEmpty(t, answer.Instance)
	require.Len(t, answer.Servers, 2)
	memory, process := answer.Servers[0], answer.Servers[1]
	require.Equal(t, "memory", memory.Server)
	require.Nil(t, memory.MemoryBytes, "a server in memory has no process of its own")
	require.Nil(t, process.CPU, "one sample says nothing about time")
	require.Nil(t, process.CallsPerMinute)
	require.Nil(t, process.ErrorShare)
	require.Len(t, process.Samples, 1)
	if runtime.GOOS == "linux" {
		require.Equal(t, 1, process.Processes)
		require.Greater(t, *process.MemoryBytes, int64(1<<20))
	}
	again := decoded[api.Usage](s, "/api/usage?after=1", http.StatusOK)
	require.EqualValues(t, 1, again.Seq, "readers share a sample")
	require.Len(t, again.Servers, 2)
	require.Empty(t, again.Servers[1].Samples, "it was read")
	status, _ := s.get("/api/usage?after=x")
	require.Equal(t, http.StatusBadRequest, status)
}
