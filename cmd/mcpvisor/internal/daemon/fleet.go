package daemon

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/internal/display"
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
	// Join makes the node. The client has these options. followed is told the specification of each
	// server, as it was resolved on this node, before the server starts, and what was applied to the
	// fleet, before servers are registered by it.
	Join func(ctx context.Context, options []facade.Option, followed *Followed) (Node, error)
	// LeaveTimeout bounds Leave.
	LeaveTimeout time.Duration
}

// Followed is what a node has of the fleet's configuration: what its gateways offer, and the
// specifications of servers as they were resolved here, with secrets, which lists hide. Safe for
// concurrent use.
type Followed struct {
	settings *gateway.SettingsVar
	masks    *control.Masks
	warn     func(format string, args ...any)

	mu     sync.Mutex // guards the fields below
	specs  map[string]mcpvisor.ServerSpec
	info   control.Info
	socket *control.Handler // nil before it is served, and without one
}

func newFollowed(inv *servers.Opener) *Followed {
	f := &Followed{settings: new(gateway.SettingsVar), masks: new(control.Masks), specs: map[string]mcpvisor.ServerSpec{},
		warn: func(format string, args ...any) { inv.Warn("", format, args...) }}
	_ = f.settings.Set(settingsOf(new(config.File))) // the default is valid
	return f
}

// Resolved notes the specification of a server.
func (f *Followed) Resolved(spec mcpvisor.ServerSpec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs[spec.Name] = spec
	f.masks.Update(slices.Collect(maps.Values(f.specs))...)
}

// Configured sets what the gateways of the fleet offer: "gateway" of its configuration, nil without
// one, and "on_down" of the definitions. If this node cannot use them, its gateways keep their settings.
func (f *Followed) Configured(definition json.RawMessage, definitions map[string]json.RawMessage) {
	file, err := servers.GatewayOfFleet(definition, definitions)
	problem := ""
	if err == nil {
		problem = gatewayProblems(file, func(p config.Problem) string { return p.Message })
	}
	if err == nil && problem == "" {
		err = f.settings.Set(settingsOf(file))
	}
	if err != nil {
		problem = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if problem != "" && problem != f.info.GatewayProblem {
		f.warn("this node cannot use \"gateway\" of the fleet, and offers hosts what it did before: %s", problem)
	}
	f.info.GatewayProblem = problem
	f.updateLocked()
}

// serveOn has a handler know all this, from now on.
func (f *Followed) serveOn(h *control.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.socket = h
	f.updateLocked()
}

func (f *Followed) updateLocked() {
	if f.socket != nil {
		f.socket.Update(f.info)
	}
}

// problem says why this node cannot use "gateway"; empty if it can.
func (f *Followed) problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info.GatewayProblem
}

// attention is what is wrong with what hosts are offered.
func (f *Followed) attention(withheld []gateway.Withheld, since time.Time) []api.Attention {
	present := control.Info{Read: since, Withheld: withheld}
	all := present.Attention()
	if problem := f.problem(); problem != "" {
		all = append(all, api.Attention{Kind: api.AttentionConfiguration, Severity: api.SeverityWarning, Since: &since,
			Text:   display.Line("this node cannot use \"gateway\" of the fleet's configuration, and offers hosts what it did before: " + problem),
			Action: "update the program of this node if it is older than that of others, or correct the file and run mcpvisor fleet apply"})
	}
	return all
}

// RunNode runs a node of a fleet until the command is interrupted, and serves its client as
// `mcpvisor run` serves that of its configuration.
func (cmd *Serving) RunNode(inv *servers.Opener, f Fleet) error {
	signals := watchHangups(inv)
	defer signals.stop()
	info := newInfo(inv)
	info.Config, info.Digest = f.Name, ""
	return cmd.keepRunning(inv, info, func(info control.Info, _ *keptRecords, options []facade.Option) (*running, error) {
		followed := newFollowed(inv)
		followed.info = info
		node, err := f.Join(inv.Context, options, followed)
		if err != nil {
			return nil, err
		}
		lists := newLists(node.Client, followed.settings)
		withheld := func() []gateway.Withheld { return lists.Status().Withheld }
		r := &running{client: node.Client, printer: nodePrinter(inv, f.ID, node.Client), close: node.Close}
		r.served = served{info: info, onSocket: followed.serveOn, collectors: []prometheus.Collector{fleetMetrics(node.Status)},
			Served: control.Served{Settings: followed.settings, Masks: followed.masks, Withheld: withheld,
				Program: api.Program{Fleet: node.Status, Attention: func() []api.Attention {
					return append(node.Attention(), followed.attention(withheld(), info.Read)...)
				}},
				Reload: func(dryRun bool) control.Reload {
					return control.Reload{DryRun: dryRun, Changes: []control.Change{}, Problem: "the servers are those of " + f.Name + "; change them with mcpvisor fleet apply, which all nodes follow"}
				}},
			usableConfig: func() float64 {
				if followed.problem() != "" {
					return 0
				}
				return 1
			},
		}
		leaving := new(atomic.Bool)
		r.served.leaving = leaving.Load
		if len(cmd.Require) == 0 { // a node is ready when it has joined, even while a server has no node
			r.served.pageOptions = []web.Option{web.WithRequired()}
		}
		r.run = func(ready func()) error {
			ready()
			<-inv.Context.Done()
			return nil
		}
		r.end = func(ctx context.Context) error {
			leaving.Store(true) // first of all: hosts find another node
			until, cancel := context.WithTimeout(context.Background(), f.LeaveTimeout)
			defer cancel()
			if err := node.Leave(until); err != nil && until.Err() != nil {
				inv.Warn("", "not all servers were handed over: %v; other nodes take them now", err)
			}
			return node.Close(ctx)
		}
		return r, nil
	})
}

// nodePrinter prints what happens to the servers of a node.
func nodePrinter(inv *servers.Opener, id string, c *facade.Client) *changePrinter {
	p := newChangePrinter(inv, nil)
	known := 0 // when there were some; after the end there are none
	p.node, p.registered = id, func() int {
		if n := len(c.Servers()); n > 0 {
			known = n
		}
		return known
	}
	return p
}

// fleetMetrics collects what a node knows of its fleet.
type fleetMetrics func() api.FleetStatus

// Describe implements prometheus.Collector. Which metrics there are depends on what is known.
func (fleetMetrics) Describe(chan<- *prometheus.Desc) {}

func (status fleetMetrics) Collect(to chan<- prometheus.Metric) {
	s := status()
	add := func(kind prometheus.ValueType, name string, value int, labels prometheus.Labels, help string) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("mcpvisor_fleet_"+name, help, nil, labels), kind, float64(value))
	}
	gauge := func(name string, value int, help string) { add(prometheus.GaugeValue, name, value, nil, help) }
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
	gauge("nodes", len(s.Nodes), "Nodes that have a lease, as this node sees them.")
	gauge("draining_nodes", draining, "Nodes that hand over their servers.")
	for state, n := range map[string]int{"placed": placed, "unplaced": len(s.Placements) - placed} {
		add(prometheus.GaugeValue, "servers", n, prometheus.Labels{"state": state}, "Servers of the fleet: placed on a node, or on none.")
	}
	gauge("servers_here", here, "Servers that are placed on this node.")
	gauge("member", member, "1 if this node has a lease, else 0.")
	gauge("generation", int(s.Generation), "The generation of the definitions that this node knows.")
	if s.CertificateExpires != nil {
		gauge("certificate_expiry_timestamp_seconds", int(s.CertificateExpires.Unix()), "When the certificate of this node expires, in Unix time.")
	}
	add(prometheus.CounterValue, "fences_total", int(s.Fences), nil, "How often this node has ended its exclusive servers because its lease had ended.")
}
