package fleetcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// viewInterval is how often the status of the node is read.
const viewInterval = 500 * time.Millisecond

// view is what a node knows of its fleet, read now and then, with the times since when something is
// so. Safe for concurrent use.
type view struct {
	node *fleet.Node
	stop context.CancelFunc
	done chan struct{}

	mu          sync.Mutex
	last        api.FleetStatus // replaced as a whole; guarded by mu, as the fields below
	unreachable map[string]since
	stale       time.Time
	applying    time.Time // since when a configuration is applied in part
	unplaced    map[string]time.Time
}

type since struct {
	at  time.Time
	why string
}

func newView(node *fleet.Node) *view {
	ctx, stop := context.WithCancel(context.Background())
	v := &view{node: node, stop: stop, done: make(chan struct{})}
	v.read(time.Now())
	go v.run(ctx)
	return v
}

func (v *view) run(ctx context.Context) {
	defer close(v.done)
	tick := time.NewTicker(viewInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			v.read(now)
		case <-ctx.Done():
			return
		}
	}
}

// close ends the reading. It may be called again.
func (v *view) close() {
	v.stop()
	<-v.done
}

func (v *view) read(now time.Time) { v.take(v.node.Status(), now.Round(0)) }

// take takes what the node knows at a time.
func (v *view) take(s fleet.Status, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := api.FleetStatus{Node: s.Node, Generation: s.Generation, Fences: max(s.Fences, v.last.Fences), CutOffSince: v.last.CutOffSince,
		Nodes: make([]api.Node, 0, len(s.Nodes)+1), Placements: make([]api.Placement, 0, len(s.Servers))}
	if s.CutOffSince.IsZero() {
		next.CutOffSince = nil
	} else if next.CutOffSince == nil || next.Fences > v.last.Fences {
		next.CutOffSince = &s.CutOffSince
	}
	if !s.CertificateExpires.IsZero() {
		next.CertificateExpires = &s.CertificateExpires
	}
	v.stale = s.StaleSince
	if !s.Applying {
		v.applying = time.Time{}
	} else if v.applying.IsZero() {
		v.applying = now
	}
	own, unreachable := false, map[string]since{}
	for _, n := range s.Nodes {
		one := api.Node{ID: n.ID, Life: n.Life, Address: n.Address, Labels: n.Labels, Weight: cmp.Or(n.Weight, 1), Capacity: n.Capacity, Draining: n.Draining, Servers: n.Servers}
		if n.Unreachable != "" {
			found := cmp.Or(v.unreachable[n.ID], since{now, n.Unreachable})
			unreachable[n.ID], one.UnreachableSince = found, &found.at
		}
		own = own || n.ID == s.Node
		next.Nodes = append(next.Nodes, one)
	}
	if !own {
		next.Nodes = append(next.Nodes, api.Node{ID: s.Node, Weight: 1})
	}
	slices.SortFunc(next.Nodes, func(a, b api.Node) int { return cmp.Compare(a.ID, b.ID) })
	unplaced := map[string]time.Time{}
	for _, one := range s.Servers {
		next.Placements = append(next.Placements, api.Placement{Server: one.Name, Exclusive: one.Exclusive, Node: one.Node, Epoch: one.Epoch, Reason: one.Unplaced})
		if one.Node == "" {
			unplaced[one.Name] = cmp.Or(v.unplaced[one.Name], now)
		}
	}
	v.unreachable, v.unplaced = unreachable, unplaced
	v.last = next
}

func (v *view) status() api.FleetStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// unplacedAfter is how long no node may run a server before that needs attention: a server that
// moves is on none for a moment.
const unplacedAfter = 15 * time.Second

func (v *view) attention() (all []api.Attention) { return v.attentionAt(time.Now()) }

func (v *view) attentionAt(now time.Time) (all []api.Attention) {
	v.mu.Lock()
	defer v.mu.Unlock()
	add := func(severity api.Severity, server string, at time.Time, text, action string) {
		all = append(all, api.Attention{Server: server, Kind: api.AttentionFleet, Severity: severity, Text: text, Action: action, Since: &at})
	}
	if at := v.last.CutOffSince; at != nil {
		add(api.SeverityError, "", *at, "this node has no lease: it runs no exclusive servers, and others take its servers over", "check whether etcd can be reached from here and has a majority; the node joins again by itself")
	} else if !v.stale.IsZero() {
		add(api.SeverityWarning, "", v.stale, "etcd has told this node nothing new, so what it shows of the fleet may be old", "check whether etcd can be reached from here")
	}
	if at := v.last.CertificateExpires; at != nil && at.Sub(now) < fleet.CertificateWarning {
		severity := api.SeverityWarning
		if at.Before(now) {
			severity = api.SeverityError
		}
		add(severity, "", at.Add(-fleet.CertificateWarning), "the certificate of this node expires at "+at.UTC().Format(time.RFC3339)+"; other nodes cannot reach it then, nor it them", "make a new certificate and restart the node; mcpvisor fleet certs makes one when the two files of the node are removed")
	}
	for id, one := range v.unreachable {
		add(api.SeverityWarning, "", one.at, fmt.Sprintf("node %s has a lease and cannot be reached from here, so calls of its servers fail here: %s", id, one.why), "check the network between the two nodes, the address that it was given, and its certificate")
	}
	if at := v.applying; !at.IsZero() && now.Sub(at) > unplacedAfter {
		add(api.SeverityWarning, "", at, "a configuration of the fleet was applied in part", "run mcpvisor fleet apply again")
	}
	for _, p := range v.last.Placements {
		if at := v.unplaced[p.Server]; !at.IsZero() && now.Sub(at) > unplacedAfter {
			add(api.SeverityError, p.Server, at, "no node of the fleet runs it: "+p.Reason, "start a node that may run it, or change its node_labels and apply the configuration")
		}
	}
	return all
}
