package fleet_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
	"github.com/mcpvisor/mcpvisor/fleet/store/memory"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/schema"
)

// A fleet of one node needs no engine, no port and no guard. What its program does with the client
// is the same as with more nodes.
func ExampleJoin() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	state := memory.New()
	defer func() { _ = state.Close() }()
	node, err := fleet.Join(ctx, fleet.Config{Store: state, ID: "a",
		// Usually definitions are entries of a configuration file; here all servers are the same.
		Resolve: func(name string, _ json.RawMessage) (mcpvisor.ServerSpec, error) {
			return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(mcptest.Script{})}, nil
		}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = node.Leave(ctx) }()

	generation, err := node.Apply(ctx, []fleet.Server{{Name: "files", Definition: json.RawMessage(`{}`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("generation", generation)
	if err := node.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	result, err := node.CallTool(ctx, "files/echo", map[string]any{"text": "hello"})
	fmt.Println(schema.Text(result), err)
	fmt.Println(node.Status().Servers[0].Node)

	// Output:
	// generation 1
	// hello <nil>
	// a
}

// A node of a fleet on etcd, with a guard for exclusive servers and a gateway for the hosts of its
// machine.
func ExampleJoin_etcd() { //nolint:testableexamples // it needs an etcd
	guard.Main(etcd.Release) // first in main: the guard is another process of this program

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
			return etcd.Ticket(access, nil, lease)
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
