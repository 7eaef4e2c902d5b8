package top

import (
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web/api"
)

// inFleet is outage on a node of a fleet that is cut off.
func inFleet() *fakeSource {
	f := outage()
	f.nodes = api.Nodes{Instance: "1", Fleet: true, FleetStatus: api.FleetStatus{Node: "north-1", Generation: 12, CutOffSince: ago(42 * time.Second), Fences: 1,
		Nodes: []api.Node{
			{ID: "north-1", Life: "1", Address: "10.0.0.1:7790", Weight: 1, Servers: 1, Labels: map[string]string{"zone": "north", "disk": "ssd"}},
			{ID: "south-1", Life: "2", Address: "10.0.0.2:7790", Weight: 2, Capacity: 40, Draining: true, Servers: 2},
			{ID: "west-1", Life: "3", Address: "10.0.0.3:7790", Weight: 0.5, UnreachableSince: ago(9 * time.Second)},
		},
		Placements: []api.Placement{{Server: "files", Node: "north-1", Epoch: 3}, {Server: "orders-database", Node: "south-1", Epoch: 17, Exclusive: true},
			{Server: "search", Epoch: 2, Reason: "no node has the labels gpu=yes"}, {Server: "web", Node: "south-1", Epoch: 1}}}}
	return f
}

// The nodes of a fleet have a screen, and each server shows its node.
func TestNodes(t *testing.T) {
	requireGolden(t, "nodes", shown(t, inFleet(), 100, 24, "n"))
	requireGolden(t, "nodes-servers", shown(t, inFleet(), 120, 24))
	plain := func(m *model) string { return ansi.Strip(m.View().Content) }
	require.Contains(t, plain(shown(t, inFleet(), 100, 30, "down", "enter")), "south-1, epoch 17 of its place, exclusive")
	require.Contains(t, plain(shown(t, inFleet(), 100, 30, "down", "down", "enter")), "none: no node has the labels gpu=yes")
	require.NotContains(t, plain(shown(t, outage(), 200, 24)), "nodes", "there is no fleet")
	require.Contains(t, plain(shown(t, outage(), 100, 24, "n")), "orders-database", "the key does nothing")
	require.Contains(t, plain(shown(t, inFleet(), 100, 40, "?")), "nodes of the fleet, and what runs on none")
	filtered := plain(shown(t, inFleet(), 120, 24, "/", "s", "o", "u", "t", "h", "enter"))
	require.Contains(t, filtered, "orders-database")
	require.NotContains(t, filtered, "● ready")
}
