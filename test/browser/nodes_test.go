package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The page of a node shows the fleet: its nodes, where each server runs, and what no node runs.
func TestNodes(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"browser", "files", "gpu"} {
		register(t, c, inMemory(name, mcptest.Script{}))
	}
	since := time.Now().Add(-time.Minute)
	fleet := api.FleetStatus{Node: "north-1", Generation: 12, CutOffSince: &since, Nodes: []api.Node{
		{ID: "north-1", Address: "10.0.0.1:7790", Weight: 1, Servers: 1, Labels: map[string]string{"zone": "north"}},
		{ID: "south-1", Address: "10.0.0.2:7790", Weight: 2, Servers: 1, Capacity: 40, Draining: true}},
		Placements: []api.Placement{{Server: "browser", Node: "south-1", Epoch: 17, Exclusive: true}, {Server: "files", Node: "north-1", Epoch: 3}, {Server: "gpu", Epoch: 2, Reason: "no node has the labels gpu=yes"}}}
	p := newPage(t, serve(t, c, nil, web.WithControls(), web.WithProgram(api.Program{Fleet: func() api.FleetStatus { return fleet }})).URL, prefix+"/#/servers")
	for _, shown := range []string{"north-1", "this process", "cut off for", "south-1", "draining", "1 of 40", "zone=north", "10.0.0.2:7790", "generation 12", "1 server is on no node", "no node has the labels gpu=yes"} {
		p.has("#nodes", shown)
	}
	p.has(`#server-rows [data-key="browser"]`, "on south-1")
	p.has(`#server-rows [data-key="gpu"]`, "on no node")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		p.wait(`[...document.querySelectorAll("#nodes .scroll")].every((e) => e.scrollWidth <= e.clientWidth)`)
		checkAccess(p, "nodes, "+look.suffix)
	}
	eval[bool](p, `(location.hash = "#/s/browser", true)`)
	p.has("#detail .facts", "epoch 17 of its place, exclusive")
	require.True(t, eval[bool](p, `(location.hash = "#/", true)`))

	alone := newPage(t, serve(t, c, nil).URL, prefix+"/#/servers")
	alone.has("#server-rows", "browser")
	alone.wait(`document.querySelector("#nodes").hidden`)
}
