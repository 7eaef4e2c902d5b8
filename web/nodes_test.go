package web_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The nodes are those that the host names; without a fleet there are none, and the lists are lists.
func TestNodes(t *testing.T) {
	c := newClient(t)
	none := decoded[api.Nodes](serve(t, c), "/api/nodes", 200)
	require.False(t, none.Fleet)
	require.NotNil(t, none.Nodes)
	require.NotNil(t, none.Placements)
	since := time.Now().Round(0).UTC()
	status := api.FleetStatus{Node: "a", Generation: 7, CutOffSince: &since, Nodes: []api.Node{{ID: "a", Weight: 1, Servers: 1}},
		Placements: []api.Placement{{Server: "files", Node: "a", Epoch: 3, Exclusive: true}, {Server: "gpu", Reason: "no node has the labels gpu=yes"}}}
	some := decoded[api.Nodes](serve(t, c, web.WithFleet(func() api.FleetStatus { return status })), "/api/nodes", 200)
	require.True(t, some.Fleet)
	require.NotEmpty(t, some.Instance)
	require.Equal(t, status, some.FleetStatus)
}
