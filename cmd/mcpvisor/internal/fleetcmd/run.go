package fleetcmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet"
	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type runCmd struct {
	reach
	daemon.Serving

	Node  string `help:"Id of this node. Its certificate has the same name." required:"" env:"MCPVISOR_FLEET_NODE" placeholder:"ID"`
	Certs string `help:"Directory with ca.crt, and with NODE.crt and NODE.key of this node, as mcpvisor fleet certs makes it." env:"MCPVISOR_FLEET_CERTS" placeholder:"DIR" complete:"file"`
	Cert  string `help:"File with the certificate of this node (default: NODE.crt of --certs)." placeholder:"FILE" complete:"file"`
	Key   string `help:"File with the key of that certificate (default: NODE.key of --certs)." placeholder:"FILE" complete:"file"`
	CA    string `help:"File with the authorities of the nodes (default: ca.crt of --certs)." name:"ca" placeholder:"FILE" complete:"file"`

	Listen  string `help:"Address at which other nodes reach this one, as in 10.0.0.1:7790 (default: 127.0.0.1:7790)." default:"127.0.0.1:7790" placeholder:"ADDR"`
	Address string `help:"Address that other nodes connect to, if it differs from --listen." placeholder:"ADDR"`

	Label          map[string]string `help:"Labels of the node, as in --label zone=north. Servers ask for them with node_labels." placeholder:"NAME=VALUE"`
	Weight         float64           `help:"The node's share of the servers, compared with that of others (default: 1)." default:"1" placeholder:"N"`
	Capacity       int               `help:"The largest number of servers that the node takes (default: no limit)." placeholder:"N"`
	TTL            time.Duration     `help:"How long the lease of the node lives without renewal; the least is 3s (default: 8s)." name:"ttl" default:"8s" placeholder:"DURATION"`
	JoinTimeout    time.Duration     `help:"How long to wait for etcd at the start (default: 1m)." default:"1m" placeholder:"DURATION"`
	LeaveTimeout   time.Duration     `help:"How long servers are handed over at the end. Those that are left then end with the node (default: 40s)." default:"40s" placeholder:"DURATION"`
	AllowUnguarded bool              `help:"Run exclusive servers without a guard, where the system has none. If this process hangs, two processes of such a server may run for a while."`
}

func (cmd *runCmd) Run(inv *servers.Opener) error {
	identity, err := cmd.identity()
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(inv.Context, cmd.JoinTimeout)
	defer cancel()
	s, err := cmd.openUntil(opening)
	switch {
	case err != nil && inv.Context.Err() != nil:
		return cli.ErrInterrupted
	case err != nil:
		return err
	}
	defer func() { _ = s.Close() }()
	config := fleet.Config{Store: s, Identity: identity, ID: cmd.Node, Address: cmd.Address, Labels: cmd.Label, Weight: cmd.Weight, Capacity: cmd.Capacity, TTL: cmd.TTL,
		AllowUnguarded: cmd.AllowUnguarded, Logger: newLogger(&inv.Invocation)}
	if !cmd.AllowUnguarded {
		if config.GuardTicket, err = cmd.ticket(); err != nil {
			return err
		}
	}
	inv.Sources = cli.NodeSources(cmd.Node)
	return cmd.RunNode(inv, daemon.Fleet{ID: cmd.Node, Name: "node " + cmd.Node + " of " + cmd.name(), LeaveTimeout: cmd.LeaveTimeout,
		Join: func(ctx context.Context, options []facade.Option, followed *daemon.Followed) (daemon.Node, error) {
			return cmd.join(ctx, &inv.Invocation, config, options, followed)
		}})
}

// joinNotice is how long etcd may be silent until the user is told that the node waits for it.
const joinNotice = 3 * time.Second

func (cmd *runCmd) join(ctx context.Context, inv *cli.Invocation, config fleet.Config, options []facade.Option, followed *daemon.Followed) (none daemon.Node, err error) {
	if config.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", cmd.Listen); err != nil {
		return none, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("other nodes cannot reach this one: %v; choose another address for --listen", err)}}
	}
	config.Options = options
	config.Resolve = func(name string, definition json.RawMessage) (mcpvisor.ServerSpec, error) {
		spec, err := fleet.ResolveDefinition(name, definition, servers.NodeOptions...)
		if err == nil {
			followed.Resolved(spec)
		}
		return spec, err
	}
	config.Configured = func(gateway json.RawMessage, all []fleet.Server) {
		definitions := make(map[string]json.RawMessage, len(all))
		for _, s := range all {
			definitions[s.Name] = s.Definition
		}
		followed.Configured(gateway, definitions)
	}
	joining, cancel := context.WithTimeout(ctx, cmd.JoinTimeout)
	defer cancel()
	waiting := time.AfterFunc(joinNotice, func() { inv.Note("waiting for etcd at %s, up to %v", strings.Join(cmd.Etcd, ", "), cmd.JoinTimeout) })
	node, err := fleet.Join(joining, config)
	waiting.Stop()
	if err != nil {
		_ = config.Listener.Close()
		switch {
		case ctx.Err() != nil:
			return none, cli.ErrInterrupted
		case joining.Err() != nil:
			return none, silentStore(cmd.JoinTimeout)
		}
		return none, cli.UsageError("%v", err)
	}
	v := newView(node)
	return daemon.Node{Client: node.Client, Status: v.status, Attention: v.attention,
		Leave: node.Leave,
		Close: func(ctx context.Context) error {
			defer v.close()
			return node.Close(ctx)
		}}, nil
}

func (cmd *runCmd) identity() (peer.Identity, error) {
	cert, key, ca := cmd.Cert, cmd.Key, cmd.CA
	for _, one := range []struct {
		path *string
		name string
	}{{&cert, cmd.Node + certFile}, {&key, cmd.Node + keyFile}, {&ca, authorityFile + certFile}} {
		if *one.path == "" && cmd.Certs == "" {
			return peer.Identity{}, cli.UsageError("a node needs a certificate: set --certs DIR, which mcpvisor fleet certs DIR %s makes, or --cert, --key and --ca", cmd.Node)
		}
		if *one.path == "" {
			*one.path = filepath.Join(cmd.Certs, one.name)
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return peer.Identity{}, cli.UsageError("the certificate of the node: %v; mcpvisor fleet certs DIR %s makes one", err, cmd.Node)
	}
	pool, err := readAuthorities("--ca", ca)
	if err != nil {
		return peer.Identity{}, err
	}
	identity := peer.Identity{Certificate: pair, Authorities: pool}
	named, err := identity.Node()
	if err != nil {
		return identity, cli.UsageError("%s: %v", cert, err)
	}
	if named != cmd.Node {
		return identity, cli.UsageError("--node is %q, and %s is the certificate of node %q; name that one, or use another certificate", cmd.Node, cert, named)
	}
	return identity, nil
}

// newLogger logs what concerns the fleet on stderr; the node adds its name. What happens to servers is
// printed on stdout.
func newLogger(inv *cli.Invocation) zerolog.Logger {
	var out io.Writer = &lineWriter{inv}
	if inv.JSON {
		return zerolog.New(out).Level(zerolog.InfoLevel).With().Timestamp().Str("kind", cli.KindNote).Logger()
	}
	out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: time.TimeOnly}
	return zerolog.New(out).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}

// lineWriter writes lines of the log without what would change a terminal.
type lineWriter struct{ inv *cli.Invocation }

func (w *lineWriter) Write(line []byte) (int, error) {
	if _, err := fmt.Fprint(w.inv.Err, display.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// ticket is what the guard of a node needs to give its lease back. It has names of files, and no
// secret.
type ticket struct {
	Reach reach       `json:"reach"`
	Lease store.Lease `json:"lease"`
}

func (r *reach) ticket() (func(store.Lease) ([]byte, error), error) {
	own := *r
	for _, path := range []*string{&own.EtcdCA, &own.EtcdCert, &own.EtcdKey, &own.EtcdPasswordFile} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return nil, err
		}
		*path = whole
	}
	return func(lease store.Lease) ([]byte, error) { return json.Marshal(ticket{own, lease}) }, nil
}

// GuardMain runs the guard if this process was started as one, and does not return then. main and
// TestMain call it first.
func GuardMain() { guard.Main(giveBack) }

// giveBack gives the lease of a ticket back. The certificates are read again: they may have been
// renewed since.
func giveBack(ctx context.Context, text []byte) error {
	var t ticket
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("the ticket of the guard cannot be read: %w", err)
	}
	c, err := t.Reach.config()
	if err != nil {
		return err
	}
	s, err := etcd.Open(c)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return s.Revoke(ctx, t.Lease)
}
