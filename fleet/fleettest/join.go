//go:build linux

package fleettest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// epochName is the variable in which a server finds its epoch.
const epochName = "MCPVISOR_EPOCH"

// guardMain runs the guard of a node, if this process is one.
func guardMain() { guard.Main(giveBack) }

// ticket is what a guard needs to give a lease back.
type ticket struct {
	Endpoints []string    `json:"endpoints"`
	Lease     store.Lease `json:"lease"`
}

func giveBack(ctx context.Context, text []byte) error {
	var t ticket
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	s, err := etcd.Open(etcd.Config{Endpoints: t.Endpoints})
	if err != nil {
		return err
	}
	return errors.Join(s.Revoke(ctx, t.Lease), s.Close())
}

// join makes the node of a process.
func join(ctx context.Context, c NodeConfig) (*fleet.Node, error) {
	s, err := etcd.Open(etcd.Config{Endpoints: c.Endpoints})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(c.Authority) {
		return nil, errors.New("the certificate of the authority cannot be read")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	config := fleet.Config{
		Store: s, Identity: peer.Identity{Certificate: cert, Authorities: authorities},
		Listener: l, Address: c.Address, TTL: c.TTL, Labels: c.Labels,
		AllowUnguarded: !c.Guard,
		Logger:         zerolog.New(os.Stderr).With().Timestamp().Str("node", c.ID).Logger(),
	}
	if c.Guard {
		config.GuardTicket = func(lease store.Lease) ([]byte, error) { return json.Marshal(ticket{c.Endpoints, lease}) }
	}
	if c.InMemory {
		config.Resolve = func(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error) {
			exclusive := strings.Contains(string(definition), exclusiveName)
			return mcpvisor.ServerSpec{
				Name: name, InMemory: &mcpvisor.InMemory{Serve: serveInMemory(c.Dir, name, exclusive)},
				Exclusive: exclusive, Policy: supervisor.Retry(supervisor.Unlimited, 100*time.Millisecond),
			}, nil
		}
	}
	node, err := fleet.Join(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("join: %w", errors.Join(err, s.Close()))
	}
	return node, nil
}
