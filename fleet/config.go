package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Config configures a node.
type Config struct {
	// Store is where the fleet keeps its state: package store/etcd.
	// The node does not close it. Required.
	Store store.Store
	// Identity has the certificate that names this node, and the authorities of the others.
	// Required with Listener.
	Identity peer.Identity
	// ID names the node if there is no Identity. Default: what the certificate says.
	ID string
	// Listener accepts the connections of other nodes; Leave and Close close it. nil: no other node
	// can reach the servers of this one, so it is a fleet of one node.
	Listener net.Listener
	// Address is where other nodes reach Listener, as host and port. Default: that of Listener,
	// which must not be a wildcard then.
	Address string

	// Labels are compared with those that servers ask for ([Server.Labels]).
	Labels map[string]string
	// Weight is the node's share of the servers, compared with that of others. Default 1.
	Weight float64
	// Capacity is the largest number of servers that the node takes. Default: no limit.
	Capacity int
	// TTL is how long the lease of the node lives without renewal. Default 8 s, the least 3 s. The
	// longer, the later the servers of a node that was lost are started elsewhere; the shorter, the
	// sooner a store that is slow ends the exclusive servers of all nodes.
	TTL time.Duration

	// GuardTicket, if set, gives the node a guard: a process that ends its exclusive servers when
	// this process hangs or dies (package guard; Linux). It returns the ticket with which
	// the function that the program passes to guard.Main gives the lease back; package store/etcd has both. The
	// program must call guard.Main first in main.
	GuardTicket func(lease store.Lease) ([]byte, error)
	// AllowUnguarded runs exclusive servers although there is no guard. If this process hangs for
	// longer than the TTL, two of them run for a while. Default: without a guard, exclusive servers
	// are not run here.
	AllowUnguarded bool

	// Options are those of the facade.Client. By default facade.WithMaxBufferBytes is 32 MiB.
	Options []facade.Option
	// Resolve makes the specification of a server from its definition, on each node. It must return, and
	// many goroutines call it; what it waits for delays its own server alone. Variables in a definition
	// have the values of that node. An error concerns this node alone: it leaves the server to others,
	// and reaches it there. Default: an entry of a configuration file, as package config reads it.
	Resolve func(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error)
	// Configured, if set, is called when what was applied to the fleet has changed, before servers are
	// registered by it, and before Join returns: with the definition of the gateways ([WithGateway]), nil
	// without one, and with the servers, sorted by name. One call at a time; the servers wait for it.
	Configured func(gateway json.RawMessage, servers []Server)
	// Logger gets what concerns the fleet. Default: no log.
	Logger zerolog.Logger
}

// defaultBufferBytes is the default of facade.WithMaxBufferBytes in a node. It is less than in a
// client, because a result that is on its way to another node is held until it has been sent: with
// more room, more of them wait here, and not in the pipes of their servers, and arrive no sooner.
const defaultBufferBytes = 32 << 20

// leastTTL is the shortest lease. etcd counts in seconds, and its leader may be away for more than
// one.
const leastTTL = 3 * time.Second

// check completes the configuration, and returns the id of the node.
func (c *Config) check() (id string, err error) {
	if c.Store == nil {
		return "", errors.New("fleet: Config.Store is nil; open one with package store/etcd")
	}
	id = c.ID
	if c.Identity.Authorities != nil || c.Listener != nil {
		named, err := c.Identity.Node()
		if err != nil {
			return "", fmt.Errorf("fleet: Config.Identity, which a node with a Listener needs: %w", err)
		}
		if id != "" && id != named {
			return "", fmt.Errorf("fleet: Config.ID is %q, and the certificate names node %q; leave ID empty", id, named)
		}
		id = named
	}
	if err := certs.CheckNodeID(id); err != nil {
		return "", fmt.Errorf("fleet: Config.ID: %w", err)
	}
	if c.Listener != nil && c.Address == "" {
		c.Address = c.Listener.Addr().String()
		if host, _, err := net.SplitHostPort(c.Address); err != nil || net.ParseIP(host).IsUnspecified() {
			return "", fmt.Errorf("fleet: the listener is at %s, which other nodes cannot reach; set Config.Address to a host and port that they can", c.Address)
		}
	}
	if c.TTL != 0 && c.TTL < leastTTL {
		return "", fmt.Errorf("fleet: Config.TTL is %v; the least is %v", c.TTL, leastTTL)
	}
	if !(c.Weight >= 0) || math.IsInf(c.Weight, 1) || c.Capacity < 0 {
		return "", fmt.Errorf("fleet: Config.Weight is %v and Capacity %d; they must be finite and not negative", c.Weight, c.Capacity)
	}
	if c.Resolve == nil {
		c.Resolve = func(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error) {
			return ResolveDefinition(name, definition)
		}
	}
	return id, nil
}

func (c *Config) protocol(id string) protocol.Config {
	return protocol.Config{TTL: c.TTL, Node: placement.Node{ID: id, Address: c.Address, Labels: c.Labels, Weight: c.Weight, Capacity: c.Capacity}}
}

// ResolveDefinition makes the specification of a server from its definition, an entry of a configuration file that is read
// with these options. Relative paths begin at the working directory. It is the default of Config.Resolve, without options.
func ResolveDefinition(name string, definition json.RawMessage, options ...config.Option) (spec mcpvisor.ServerSpec, err error) {
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]json.RawMessage{name: definition}})
	if err != nil {
		return spec, fmt.Errorf("the definition of server %q is not JSON: %w", name, err)
	}
	file, err := config.Parse(text, "fleet", append(slices.Clip(options), config.WithOtherServers())...)
	if err != nil {
		return spec, err
	}
	if len(file.Servers) == 1 && !file.Servers[0].Disabled && file.Servers[0].Spec.Name == name {
		spec = file.Servers[0].Spec
		spec.Origin = "the fleet"
		return spec, nil
	}
	var problems []string
	for _, p := range file.Problems {
		if p.Severity == config.SeverityError {
			problems = append(problems, p.Message)
		}
	}
	if len(problems) == 0 {
		problems = append(problems, "it is disabled, or its name cannot name a server")
	}
	return spec, fmt.Errorf("the definition of server %q cannot be used on this node: %s", name, strings.Join(problems, "; "))
}
