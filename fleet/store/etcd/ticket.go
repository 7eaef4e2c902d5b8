package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// PEM has the certificates of a connection to etcd as files have them.
type PEM struct {
	// Authorities sign the certificates of etcd's members.
	Authorities []byte `json:"authorities"`
	// Certificate and Key are those of this client; empty if etcd asks for none.
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
}

// TLS returns the configuration for [Config.TLS].
func (p *PEM) TLS() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.Authorities) {
		return nil, errors.New("etcd: the text of the authorities has no certificate in PEM")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if len(p.Certificate) == 0 && len(p.Key) == 0 {
		return c, nil
	}
	cert, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, fmt.Errorf("etcd: the certificate of the client: %w", err)
	}
	c.Certificates = []tls.Certificate{cert}
	return c, nil
}

// ticket is what a guard needs to give a lease back.
type ticket struct {
	Lease     store.Lease `json:"lease"`
	Endpoints []string    `json:"endpoints"`
	Prefix    string      `json:"prefix,omitempty"`
	PEM       *PEM        `json:"pem,omitempty"`
	Username  string      `json:"username,omitempty"`
	Password  string      `json:"password,omitempty"`
}

// Ticket returns what [Release] needs to give a lease back, for fleet.Config.GuardTicket. It holds the
// key and the password, if there are any. pem are the certificates of c.TLS; nil without TLS.
func Ticket(c Config, pem *PEM, lease store.Lease) ([]byte, error) {
	if (c.TLS != nil) != (pem != nil) {
		return nil, errors.New("etcd: a ticket needs the certificates of Config.TLS as PEM, and none without TLS")
	}
	return json.Marshal(ticket{Lease: lease, Endpoints: c.Endpoints, Prefix: c.Prefix, PEM: pem, Username: c.Username, Password: c.Password})
}

// Release gives the lease of a ticket back. It is the function that a program passes to guard.Main.
func Release(ctx context.Context, text []byte) error {
	var t ticket
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("etcd: a ticket that cannot be read: %w", err)
	}
	c := Config{Endpoints: t.Endpoints, Prefix: t.Prefix, Username: t.Username, Password: t.Password}
	if t.PEM != nil {
		var err error
		if c.TLS, err = t.PEM.TLS(); err != nil {
			return err
		}
	}
	s, err := Open(c)
	if err != nil {
		return err
	}
	return errors.Join(s.Revoke(ctx, t.Lease), s.Close())
}
