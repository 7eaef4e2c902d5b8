package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

// leaseTTL is that of the etcd provider of the actor library, which is a constant there.
const leaseTTL = 3 * time.Second

// fleetNode is a node of a fleet whose servers are exclusive.
type fleetNode struct{ *fleet.Node }

func newFleet(c nodeConfig, l *log) system {
	cert, authorities := credentialsOf(c)
	at := etcd.Config{Endpoints: []string{c.Etcd}, Prefix: c.Cluster + "/"}
	config := fleet.Config{
		Store: must(etcd.Open(at)), Identity: peer.Identity{Certificate: cert, Authorities: authorities}, Listener: must(net.Listen("tcp", "127.0.0.1:0")), TTL: leaseTTL,
		Resolve: func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) { return l.newSpec(name, name), nil },
	}
	if c.System == unguarded {
		config.AllowUnguarded = true
	} else {
		config.GuardTicket = func(lease store.Lease) ([]byte, error) { return etcd.Ticket(at, nil, lease) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	return fleetNode{must(fleet.Join(ctx, config))}
}

func (n fleetNode) apply(names []string) {
	var servers []fleet.Server
	for _, name := range names {
		servers = append(servers, fleet.Server{Name: name, Exclusive: true, Definition: json.RawMessage(`{}`)})
	}
	_ = must(n.Apply(context.Background(), servers))
}

func (n fleetNode) call(name string, args json.RawMessage, timeout time.Duration, wait bool) (notSent bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if wait {
		_, err = n.CallToolRaw(ctx, name+"/echo", args, facade.WithWaitReady())
	} else {
		_, err = n.CallToolRaw(ctx, name+"/echo", args)
	}
	if failure := (*mcpvisor.Error)(nil); errors.As(err, &failure) {
		notSent = failure.Outcome == mcpvisor.OutcomeNotSent
	}
	return notSent, err
}

func (n fleetNode) members() int { return len(n.Status().Nodes) }

func (n fleetNode) leave() { check(n.Leave(context.Background())) }
