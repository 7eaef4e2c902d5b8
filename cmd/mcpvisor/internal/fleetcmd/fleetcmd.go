// Package fleetcmd has the commands of mcpvisor for a fleet: certificates for its nodes, a node
// itself, and what an operator does from any machine that reaches etcd.
package fleetcmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// Command is `mcpvisor fleet`.
type Command struct {
	Certs  certsCmd  `cmd:"" help:"Make an authority, and a certificate for each node, in a directory. They suit tests and small fleets. An authority that is already in the directory is used again."`
	Run    runCmd    `cmd:"" help:"Run a node of a fleet until interrupted: it runs the servers that are placed on it, and reaches the others on their nodes. Other commands attach to it with --config fleet:NODE."`
	Apply  applyCmd  `cmd:"" help:"Make the servers of configuration files the servers of the fleet. All nodes follow: servers that the files do not have are removed, changed ones are started again. Secrets are references ($${VAR}, $${file:/path}, $${keyring:service/account}), which each node resolves for itself."`
	Status statusCmd `cmd:"" help:"Show the nodes of the fleet, and which node runs each server."`
	Drain  drainCmd  `cmd:"" help:"Hand over all servers of a node to the others. The node takes none until its process ends."`
	Move   moveCmd   `cmd:"" help:"Hand over a server to another node."`
}

type reach struct {
	Etcd             []string `help:"Addresses of etcd, as in https://10.0.0.1:2379. Several are members of one cluster." env:"MCPVISOR_FLEET_ETCD" sep:"," placeholder:"URL"`
	EtcdPrefix       string   `help:"Prefix of the keys of this fleet in etcd, so that several fleets can share one etcd (default: mcpvisor/)." env:"MCPVISOR_FLEET_PREFIX" default:"mcpvisor/" placeholder:"TEXT"`
	EtcdCA           string   `help:"File with the authority of etcd's certificates." name:"etcd-ca" env:"MCPVISOR_FLEET_ETCD_CA" placeholder:"FILE" complete:"file"`
	EtcdCert         string   `help:"File with the certificate of this client, if etcd asks for one." env:"MCPVISOR_FLEET_ETCD_CERT" placeholder:"FILE" complete:"file"`
	EtcdKey          string   `help:"File with the key of that certificate." env:"MCPVISOR_FLEET_ETCD_KEY" placeholder:"FILE" complete:"file"`
	EtcdUser         string   `help:"User of etcd." env:"MCPVISOR_FLEET_ETCD_USER" placeholder:"NAME"`
	EtcdPasswordFile string   `help:"File with the password of that user." env:"MCPVISOR_FLEET_ETCD_PASSWORD_FILE" placeholder:"FILE" complete:"file"`
}

func (r *reach) name() string {
	name := "the fleet at " + strings.Join(r.Etcd, ", ")
	if r.EtcdPrefix != "mcpvisor/" {
		name += ", " + r.EtcdPrefix
	}
	return name
}

func (r *reach) config() (etcd.Config, error) {
	c := etcd.Config{Endpoints: r.Etcd, Prefix: r.EtcdPrefix, Username: r.EtcdUser}
	if len(r.Etcd) == 0 {
		return c, cli.UsageError("where is etcd? Set --etcd or MCPVISOR_FLEET_ETCD, as in https://10.0.0.1:2379")
	}
	for _, endpoint := range r.Etcd {
		if !strings.HasPrefix(endpoint, "http://") && !strings.HasPrefix(endpoint, "https://") {
			return c, cli.UsageError("--etcd %s is not an address of etcd; write for instance https://10.0.0.1:2379", endpoint)
		}
	}
	if !strings.HasSuffix(r.EtcdPrefix, "/") {
		return c, cli.UsageError("--etcd-prefix %s must end with a slash", r.EtcdPrefix)
	}
	switch {
	case (r.EtcdCert == "") != (r.EtcdKey == ""):
		return c, cli.UsageError("--etcd-cert and --etcd-key belong together; set both")
	case (r.EtcdUser == "") != (r.EtcdPasswordFile == ""):
		return c, cli.UsageError("--etcd-user and --etcd-password-file belong together; set both")
	}
	if r.EtcdPasswordFile != "" {
		password, err := regularfile.Read(r.EtcdPasswordFile, maxFile)
		if err != nil {
			return c, cli.UsageError("--etcd-password-file cannot be read: %v", err)
		}
		c.Password = strings.TrimRight(string(password), "\r\n")
	}
	if r.EtcdCA == "" && r.EtcdCert == "" {
		return c, nil
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if r.EtcdCA != "" {
		pool, err := readAuthorities("--etcd-ca", r.EtcdCA)
		if err != nil {
			return c, err
		}
		c.TLS.RootCAs = pool
	}
	if r.EtcdCert != "" {
		pair, err := tls.LoadX509KeyPair(r.EtcdCert, r.EtcdKey)
		if err != nil {
			return c, cli.UsageError("--etcd-cert, --etcd-key: %v", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// open opens the store. If etcd asks for a user, it waits some seconds for an answer.
func (r *reach) open() (store.Store, error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return r.openUntil(ended)
}

// openUntil opens the store, and tries again until ctx ends while etcd does not answer.
func (r *reach) openUntil(ctx context.Context) (store.Store, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	for {
		s, err := etcd.Open(c)
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, etcd.ErrNoAnswer):
			return nil, cli.UsageError("%v", err)
		case backoff.Sleep(ctx, openAgain) != nil:
			return nil, unavailable(fmt.Errorf("%w; check --etcd and the certificates, and that a majority of its members is there", err))
		}
	}
}

// openAgain is when an etcd that does not answer is tried again.
const openAgain = 500 * time.Millisecond

// requestTimeout bounds what a command asks of the store.
const requestTimeout = 10 * time.Second

// ask does something with the store, within the time of a request.
func (r *reach) ask(inv *cli.Invocation, f func(ctx context.Context, s store.Store) error) error {
	s, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return within(inv, func(ctx context.Context) error { return f(ctx, s) })
}

// within gives f the time of a request, and says what failed if that was not enough.
func within(inv *cli.Invocation, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(inv.Context, requestTimeout)
	defer cancel()
	err := f(ctx)
	switch {
	case inv.Context.Err() != nil:
		return cli.ErrInterrupted
	case err != nil && ctx.Err() != nil:
		return silentStore(requestTimeout)
	}
	return err
}

// silentStore is the error about an etcd that did not answer for a time.
func silentStore(after time.Duration) error {
	return unavailable(fmt.Errorf("etcd has not answered within %v; check --etcd and the certificates, and that a majority of its members is there", after))
}

func unavailable(err error) error {
	return &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: cli.KindFailed, Message: err.Error()}}
}

// maxFile is the longest file that is read, in bytes.
const maxFile = 4 << 20

// readAuthorities reads a file of certificates in PEM. option names it in errors.
func readAuthorities(option, path string) (*x509.CertPool, error) {
	text, err := regularfile.Read(path, maxFile)
	if err != nil {
		return nil, cli.UsageError("%s: %v", option, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, cli.UsageError("%s: %s has no certificate in PEM", option, path)
	}
	return pool, nil
}

func isNotExist(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
