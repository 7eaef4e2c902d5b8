package top

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// flappingSource has a server that ends within a second of each start; it is between two starts,
// or ready.
func flappingSource(state supervisor.State) *fakeSource {
	f := outage()
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "no key (exit status 7)"}
	s := mcpvisor.ServerStatus{Name: "loop", State: state, Since: *ago(300 * time.Millisecond), LastCause: cause, Restarts: 40}
	cpu := 0.37
	use := api.ServerUsage{Server: "loop", CPU: &cpu}
	if state != supervisor.StateReady {
		use.CPU = nil
	}
	f.status.Servers, f.usage.Servers, f.calls = []mcpvisor.ServerStatus{s, f.status.Servers[0]}, []api.ServerUsage{use}, api.Calls{}
	f.status.Attention = []api.Attention{{Server: "loop", Kind: api.AttentionFlapping, Severity: api.SeverityWarning, Text: "no key (exit status 7); has ended 6 times within 5 min", Since: ago(time.Second)}}
	return f
}

// A server that dies soon after each start reads alike at each moment, with its last cause; the
// header counts it neither as ready nor changes every second.
func TestFlapping(t *testing.T) {
	for _, state := range []supervisor.State{supervisor.StateReady, supervisor.StateBackoff, supervisor.StateConnecting} {
		m := shown(t, flappingSource(state), 140, 30)
		require.Regexp(t, `▸ loop +↻ flapping +· .*no key \(exit status 7\)`, text(m), state)
		require.Contains(t, text(m), "1 of 2 ready, 1 flapping")
		require.Contains(t, text(m), "NEXT", "the columns stay, too")
		require.Contains(t, oneLine(m), "state ↻ flapping: it ends again soon after each start; now "+glyph(state)+" "+string(state))
		require.Contains(t, oneLine(m), "cause no key")
		typeKeys(t, m, "s")
		require.Equal(t, "loop", m.servers()[0].Name)
	}
	f := flappingSource(supervisor.StateReady)
	f.status.Servers[0].Name = "alone"
	require.NotContains(t, text(shown(t, f, 140, 30)), "flapping:", "it is another one")
	f = flappingSource(supervisor.StateEvicted)
	require.Contains(t, text(shown(t, f, 140, 30)), "✗ evicted", "a state that lasts")
	f = flappingSource(supervisor.StateReady)
	f.status.Attention[0].Server, f.status.Attention[0].Servers = "", []string{"files", "loop"}
	require.Contains(t, text(shown(t, f, 140, 30)), "0 of 2 ready, 2 flapping", "the entry is about both")
}

// The CPU of a flapping server stays for some seconds while it has no process.
func TestFlapping_keeps_CPU(t *testing.T) {
	now := clock
	m := shown(t, flappingSource(supervisor.StateReady), 140, 30)
	m.opts.Now = func() time.Time { return now }
	settle(m, m.read())
	require.Contains(t, text(m), "37%")
	m.source = flappingSource(supervisor.StateBackoff)
	now = clock.Add(keptUsage - time.Second)
	settle(m, m.read())
	require.Contains(t, text(m), "37%")
	now = clock.Add(keptUsage)
	settle(m, m.read())
	require.NotContains(t, text(m), "37%")

	m = shown(t, flappingSource(supervisor.StateReady), 140, 30)
	f := flappingSource(supervisor.StateBackoff)
	f.status.Attention = nil
	m.source = f
	settle(m, m.read())
	require.NotContains(t, text(m), "37%", "one that does not flap uses nothing now")
}
