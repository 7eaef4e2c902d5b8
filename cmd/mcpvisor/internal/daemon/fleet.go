package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Node is a node of a fleet: a client whose servers are those of the fleet, and come and go by
// themselves.
type Node struct {
	Client *facade.Client
	// Status is what the node knows of its fleet. Attention is what an operator should look at. Both
	// return at once, and are called by several goroutines.
	Status    func() api.FleetStatus
	Attention func() []api.Attention
	// Leave hands all servers over, and ends with its context. Close ends what is left, and the
	// client; it may follow Leave.
	Leave func(ctx context.Context) error
	Close func(ctx context.Context) error
}

// Fleet says how a node is made, and what it is called.
type Fleet struct {
	// ID of the node, and what the fleet is called in texts.
	ID, Name string
	// Join makes the node. The client has these options. specs is told the specification of each
	// server, as it was resolved on this node, before the server starts.
	Join func(ctx context.Context, options []facade.Option, specs *Specs) (Node, error)
	// LeaveTimeout bounds Leave.
	LeaveTimeout time.Duration
}

// Specs are the specifications of servers as this process runs them, with their secrets, which lists
// hide. Safe for concurrent use.
type Specs struct {
	mu     sync.Mutex
	byName map[string]mcpvisor.ServerSpec
	tell   func([]mcpvisor.ServerSpec) // guarded by mu; nil before anybody listens
}

// Set notes the specification of a server.
func (s *Specs) Set(spec mcpvisor.ServerSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]mcpvisor.ServerSpec{}
	}
	s.byName[spec.Name] = spec
	if s.tell != nil {
		s.tell(slices.Collect(maps.Values(s.byName)))
	}
}

// listen calls tell now and after each change, one call at a time.
func (s *Specs) listen(tell func([]mcpvisor.ServerSpec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = tell
	tell(slices.Collect(maps.Values(s.byName)))
}

// RunNode runs a node of a fleet until the command is interrupted, and serves its client as
// `mcpvisor run` serves that of its configuration.
func (cmd *Serving) RunNode(inv *servers.Opener, f Fleet) error {
	signals := watchHangups(inv)
	defer signals.stop()
	info := newInfo(inv)
	info.Config, info.Digest = f.Name, ""
	o, err := cmd.open(inv)
	if err != nil {
		return err
	}
	defer o.close()
	info.URL, info.MCP = o.urls()
	if o.page != nil && len(cmd.Require) == 0 { // a server that no node runs is no reason to send nobody here
		o.page.options = append(o.page.options, web.WithRequired())
	}
	options, closeJournal, err := cmd.clientOptions(cmd.Journal)
	if err != nil {
		return err
	}
	defer closeJournal()
	specs := new(Specs)
	node, err := f.Join(inv.Context, options, specs)
	if err != nil {
		return err
	}
	closeUnserved := func(failed error) error {
		ctx, cancel := context.WithTimeout(context.Background(), servers.CloseTimeout)
		defer cancel()
		return errors.Join(failed, node.Close(ctx))
	}
	settings := new(gateway.SettingsVar)
	if err := settings.Set(gateway.Settings{Names: &gateway.Names{HostPrefix: control.HostPrefix}}); err != nil {
		return closeUnserved(err)
	}
	lists := newLists(node.Client, settings)
	withheld := func() []gateway.Withheld { return lists.Status().Withheld }
	serving, closeMetrics, err := o.serve(node.Client, served{
		settings: settings, withheld: withheld, info: info,
		attention: func() []api.Attention {
			present := control.Info{Read: info.Read, Withheld: withheld()}
			return append(node.Attention(), present.Attention()...)
		},
		usableConfig: func() float64 { return 1 },
		reload: func(dryRun bool) control.Reload {
			return control.Reload{DryRun: dryRun, Changes: []control.Change{}, Problem: "the servers are those of " + f.Name + "; change them with mcpvisor fleet apply, which all nodes follow"}
		},
		fleet: node.Status, collectors: []prometheus.Collector{newFleetMetrics(node.Status)},
		onSocket: func(h *control.Handler) {
			specs.listen(func(all []mcpvisor.ServerSpec) { h.Update(info, all...) })
		},
	})
	if err != nil {
		return closeUnserved(err)
	}
	defer closeMetrics()
	printer := newChangePrinter(inv, nil)
	known := 0 // when there were some; after the end there are none
	printer.node, printer.registered = f.ID, func() int {
		if n := len(node.Client.Servers()); n > 0 {
			known = n
		}
		return known
	}
	leave := func(ctx context.Context) error {
		leaving, cancel := context.WithTimeout(context.Background(), f.LeaveTimeout)
		defer cancel()
		if err := node.Leave(leaving); err != nil && leaving.Err() != nil {
			inv.Warn("", "not all servers were handed over: %v; other nodes take them now", err)
		}
		return node.Close(ctx)
	}
	err = supervise(inv, node.Client, printer, info, leave, func(ready func()) error {
		ready()
		<-inv.Context.Done()
		return nil
	})
	return errors.Join(err, serving.close())
}

// fleetMetrics are the metrics of a node.
type fleetMetrics struct {
	status                                         func() api.FleetStatus
	nodes, draining, servers, here, fences, member *prometheus.Desc
	generation                                     *prometheus.Desc
}

func newFleetMetrics(status func() api.FleetStatus) *fleetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mcpvisor_fleet_"+name, help, labels, nil)
	}
	return &fleetMetrics{status: status,
		nodes:      desc("nodes", "Nodes that have a lease, as this node sees them."),
		draining:   desc("draining_nodes", "Nodes that hand over their servers."),
		servers:    desc("servers", "Servers of the fleet: placed on a node, or on none.", "state"),
		here:       desc("servers_here", "Servers that are placed on this node."),
		fences:     desc("fences_total", "How often this node has ended its exclusive servers because its lease had ended."),
		member:     desc("member", "1 if this node has a lease, else 0."),
		generation: desc("generation", "The generation of the definitions that this node knows."),
	}
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.nodes, m.draining, m.servers, m.here, m.fences, m.member, m.generation} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.status()
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	draining, placed, here, member := 0, 0, 0, 1
	for _, n := range s.Nodes {
		if n.Draining {
			draining++
		}
	}
	for _, p := range s.Placements {
		if p.Node != "" {
			placed++
		}
		if p.Node == s.Node {
			here++
		}
	}
	if s.CutOffSince != nil {
		member = 0
	}
	gauge(m.nodes, len(s.Nodes))
	gauge(m.draining, draining)
	gauge(m.servers, placed, "placed")
	gauge(m.servers, len(s.Placements)-placed, "unplaced")
	gauge(m.here, here)
	gauge(m.member, member)
	gauge(m.generation, int(s.Generation))
	to <- prometheus.MustNewConstMetric(m.fences, prometheus.CounterValue, float64(s.Fences))
}
