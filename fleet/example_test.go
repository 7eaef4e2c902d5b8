package fleet_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
	"github.com/mcpvisor/mcpvisor/gateway"
)

// ticket is what the guard of a node needs to give the node's lease back: how it reaches etcd, and the
// lease. With TLS or a password it has the names of the files, which are read again.
type ticket struct {
	Endpoints []string
	Lease     store.Lease
}

func release(ctx context.Context, text []byte) error {
	var t ticket
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	state, err := etcd.Open(etcd.Config{Endpoints: t.Endpoints})
	if err != nil {
		return err
	}
	return errors.Join(state.Revoke(ctx, t.Lease), state.Close())
}

// A node of a fleet on etcd, with a guard for exclusive servers and a gateway for the hosts of its
// machine.
func ExampleJoin() { //nolint:testableexamples // it needs an etcd
	guard.Main(release) // first in main: the guard is another process of this program

	ctx := context.Background()
	access := etcd.Config{Endpoints: []string{"http://127.0.0.1:2379"}}
	state, err := etcd.Open(access)
	if err != nil {
		panic(err)
	}
	authority, err := certs.NewAuthority("test") // usually read from files
	if err != nil {
		panic(err)
	}
	var certificate tls.Certificate
	if certificate, err = authority.IssueTLS("a"); err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:7400")
	if err != nil {
		panic(err)
	}
	node, err := fleet.Join(ctx, fleet.Config{
		Store:    state,
		Identity: peer.Identity{Certificate: certificate, Authorities: authority.Pool()},
		Listener: listener,
		Labels:   map[string]string{"zone": "1"},
		GuardTicket: func(lease store.Lease) ([]byte, error) {
			return json.Marshal(ticket{access.Endpoints, lease})
		},
	})
	if err != nil {
		panic(err)
	}
	_, err = node.Apply(ctx, []fleet.Server{{
		Name: "browser", Exclusive: true, Labels: map[string]string{"zone": "1"},
		Definition: json.RawMessage(`{"command": "npx", "args": ["-y", "@playwright/mcp"], "env": {"TOKEN": "${TOKEN}"}}`),
	}})
	if err != nil {
		panic(err)
	}
	http.Handle("/mcp", gateway.Handler(node.Client)) // it serves the servers of all nodes
}

// An operator moves a server to another node; later its program ends, and hands over what it has.
func ExampleNode_Move() { //nolint:testableexamples // it needs two nodes
	var node *fleet.Node // of fleet.Join
	move := func(ctx context.Context) error {
		if err := node.Move(ctx, "browser", "b"); err != nil {
			return err
		}
		return node.Leave(ctx)
	}
	_ = move
}
