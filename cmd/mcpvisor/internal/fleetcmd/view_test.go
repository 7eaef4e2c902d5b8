package fleetcmd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The view says since when something is so, counts the ends of leases, and names what needs
// attention.
func TestView(t *testing.T) {
	v := new(view)
	start := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	good := fleet.Status{Node: "a", Member: true, LeaseEnds: at(100), Generation: 4,
		Nodes:   []fleet.NodeStatus{{ID: "b", Life: "2", Servers: 1}, {ID: "a", Life: "1", Servers: 1, Weight: 2}},
		Servers: []fleet.ServerStatus{{Name: "files", Node: "a", Epoch: 3}, {Name: "search", Node: "b", Epoch: 1, Exclusive: true}}}
	v.take(good, at(0))
	s := v.status()
	require.Equal(t, []api.Node{{ID: "a", Life: "1", Weight: 2, Servers: 1}, {ID: "b", Life: "2", Weight: 1, Servers: 1}}, s.Nodes)
	require.Equal(t, api.Placement{Server: "search", Node: "b", Epoch: 1, Exclusive: true}, s.Placements[1])
	require.EqualValues(t, 4, s.Generation)
	require.Nil(t, s.CutOffSince)
	require.Empty(t, v.attentionAt(at(100)))

	lost := good
	lost.Nodes = []fleet.NodeStatus{{ID: "b", Servers: 1, Unreachable: "connection refused"}}
	lost.Servers = []fleet.ServerStatus{{Name: "files", Unplaced: "no node has taken it yet", Epoch: 3}, good.Servers[1]}
	lost.LeaseEnds, lost.Applying = time.Time{}, true
	lost.Member, lost.CutOffSince, lost.Fences = false, at(10), 1
	v.take(lost, at(10))
	lost.CutOffSince = at(10).Add(time.Millisecond) // each reading of two clocks differs
	v.take(lost, at(20))
	s = v.status()
	require.Equal(t, at(10), *s.CutOffSince, "the first time")
	require.EqualValues(t, 1, s.Fences, "once")
	require.Equal(t, "a", s.Nodes[0].ID, "this node is listed without a lease, too")
	require.Equal(t, at(10), *s.Nodes[1].UnreachableSince)
	kinds := func(all []api.Attention) (texts []string) {
		for _, one := range all {
			require.Equal(t, api.AttentionFleet, one.Kind)
			require.Equal(t, at(10), *one.Since)
			require.NotEmpty(t, one.Action)
			texts = append(texts, one.Server+": "+one.Text)
		}
		return texts
	}
	require.Len(t, kinds(v.attentionAt(at(20))), 2, "a server that moves is on no node for a moment")
	texts := kinds(v.attentionAt(at(40)))
	require.Len(t, texts, 4)
	require.Contains(t, texts[0], "this node has no lease")
	require.Contains(t, texts[1], "node b has a lease and cannot be reached from here, so calls of its servers fail here: connection refused")
	require.Contains(t, texts[2], "applied in part")
	require.Contains(t, texts[3], "files: no node of the fleet runs it: no node has taken it yet")

	v.take(good, at(50))
	require.Empty(t, v.attentionAt(at(500)))
	require.Nil(t, v.status().CutOffSince)
	lost.CutOffSince, lost.Fences = at(60), 2
	v.take(lost, at(60))
	require.Equal(t, at(60), *v.status().CutOffSince)
	good.Fences = 3 // it was no member for less than the time between two readings
	v.take(good, at(70))
	require.EqualValues(t, 3, v.status().Fences)
	require.Nil(t, v.status().CutOffSince)
}

// A certificate needs attention before it expires.
func TestView_certificate(t *testing.T) {
	v := new(view)
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	s := fleet.Status{Node: "a", Member: true, CertificateExpires: now.Add(fleet.CertificateWarning + time.Hour)}
	v.take(s, now)
	require.Equal(t, s.CertificateExpires, *v.status().CertificateExpires)
	require.Empty(t, v.attentionAt(now))
	for later, severity := range map[time.Duration]api.Severity{2 * time.Hour: api.SeverityWarning, fleet.CertificateWarning + 2*time.Hour: api.SeverityError} {
		all := v.attentionAt(now.Add(later))
		require.Len(t, all, 1)
		require.Equal(t, severity, all[0].Severity)
		require.Contains(t, all[0].Text, "the certificate of this node expires at 2026-08-11T13:00:00Z")
	}
}
