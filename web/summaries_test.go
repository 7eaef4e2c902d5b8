package web_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// A crash loop is one summary; what else has changed is found by its kind and by its server.
func TestSummaries(t *testing.T) {
	c := newClient(t)
	s := serve(t, c)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "loop", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond, supervisor.WithMaxDelay(time.Millisecond))}))
	registerBroken(t, c, "broken")
	const crashes = 400
	for i := range crashes {
		_, err := c.CallTool(t.Context(), "loop/crash", map[string]any{"code": 1})
		require.ErrorIs(t, err, mcpvisor.ErrCrashed, i)
		require.NoError(t, c.WaitReady(t.Context(), "loop"))
	}
	events := decoded[api.Events](s, "/api/events?kind=registered", 200)
	require.Empty(t, events.Events, "the loop has displaced them")
	all := decoded[api.EventSummaries](s, "/api/events/summaries", 200)
	var texts []string
	for _, one := range all.Summaries {
		texts = append(texts, fmt.Sprintf("%s %s %d", one.Last.Server, one.Last.Group, one.Count))
	}
	require.Equal(t, []string{"loop configuration 1", "broken configuration 1", "broken ends 1", "broken given_up 1", fmt.Sprint("loop ends ", crashes)}, texts)
	require.Zero(t, all.Dropped)
	require.Contains(t, all.Summaries[4].Text, "loop ended 400 times; last: ")
	require.Equal(t, mcpvisor.SeverityWarning, all.Summaries[4].Last.Severity)

	one := decoded[api.EventSummaries](s, "/api/events/summaries?server=broken&kind=evicted&kind=parked", 200)
	require.Len(t, one.Summaries, 1)
	require.Equal(t, mcpvisor.EventEvicted, one.Summaries[0].Last.Kind)
	require.Empty(t, decoded[api.EventSummaries](s, fmt.Sprint("/api/events/summaries?after=", all.Seq), 200).Summaries)
	require.NotEmpty(t, decoded[api.Events](s, "/api/events?server=loop", 200).Events)
	require.Empty(t, decoded[api.Events](s, "/api/events?server=broken", 200).Events)
	status, _ := s.get("/api/events/summaries?after=x")
	require.Equal(t, 400, status)
}
