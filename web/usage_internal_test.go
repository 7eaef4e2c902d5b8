package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/usage"
)

func TestUsageOf_has_rates_of_the_last_minute(t *testing.T) {
	at := time.Now()
	u := usageOf("fs", []usage.Sample{
		{Seq: 1, At: at.Add(-2 * time.Minute)},
		{Seq: 2, At: at.Add(-time.Minute), Over: time.Minute, Calls: 1000, Failed: 100},
		{Seq: 3, At: at.Add(-20 * time.Second), Over: 40 * time.Second, Calls: 30},
		{Seq: 4, At: at, Over: 20 * time.Second, Calls: 0, Known: true, CPU: 0.25, Memory: 7, Processes: 2},
	}, 2)
	require.InDelta(t, 30, *u.CallsPerMinute, 1e-9)
	require.InDelta(t, 100.0/1030, *u.ErrorShare, 1e-9)
	require.InDelta(t, 0.25, *u.CPU, 1e-9)
	require.EqualValues(t, 7, *u.MemoryBytes)
	require.Len(t, u.Samples, 2)
	require.EqualValues(t, 3, u.Samples[0].Seq)
	require.Nil(t, u.Samples[0].CPU, "not known is not 0")
}

func TestUsersOf_counts_the_standby_and_copies(t *testing.T) {
	users := usage.Of([]mcpvisor.ServerStatus{
		{Name: "a", Gen: 3, Session: &mcpvisor.SessionInfo{PID: 10}, Standby: &mcpvisor.SessionInfo{PID: 11}, Copies: []int{0, 12, 13}, Calls: mcpvisor.CallCounts{Total: 5, Failed: 2}},
		{Name: "b", Session: &mcpvisor.SessionInfo{}},
	})
	require.Equal(t, []usage.Server{{Name: "a", Gen: 3, PIDs: []int{10, 11, 12, 13}, Calls: 5, Failed: 2}, {Name: "b"}}, users)
}
