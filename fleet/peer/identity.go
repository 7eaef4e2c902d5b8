package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/certs"
)

// Identity has the certificate of a node, and the authorities that the node trusts. Both ends of a
// connection prove who they are: a URI in its certificate names the node, as in mcpvisor://node/a.
type Identity struct {
	// Certificate is that of this node, for clients and servers. Required.
	Certificate tls.Certificate
	// Authorities sign the certificates of the nodes. Required.
	Authorities *x509.CertPool
}

// Node returns the id of the node that the certificate names.
func (i *Identity) Node() (string, error) {
	leaf, err := i.leaf()
	if err != nil {
		return "", err
	}
	return certs.NodeOf(leaf)
}

// Expires returns when the certificate does; zero without one.
func (i *Identity) Expires() time.Time {
	leaf, err := i.leaf()
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

func (i *Identity) leaf() (*x509.Certificate, error) {
	if i.Authorities == nil || len(i.Certificate.Certificate) == 0 {
		return nil, errors.New("peer: an identity needs a certificate and authorities")
	}
	if i.Certificate.Leaf != nil {
		return i.Certificate.Leaf, nil
	}
	leaf, err := x509.ParseCertificate(i.Certificate.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return leaf, nil
}

// Refused reports why this node and the one at an address do not accept each other's certificates. reached is
// false if that node does not answer.
func (i *Identity) Refused(ctx context.Context, node, address string) (reached bool, refusal error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	config := i.clientTLS(node)
	config.NextProtos = []string{"h2"}
	_, err = tls.Client(conn, config).Read(make([]byte, 1)) // a server that accepts the client speaks first
	var remote *net.OpError
	if err == nil {
		return true, nil
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.CertificateInvalidError)) || errors.As(err, &remote) && remote.Op == "remote error" {
		return true, err
	}
	return false, nil
}

// clientTLS returns the configuration of connections to the node with this id.
func (i *Identity) clientTLS(node string) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{i.Certificate},
		// The standard verification does not know names by URI. verify does all of the verification.
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyConnection: func(state tls.ConnectionState) error {
			return i.verify(state, x509.ExtKeyUsageServerAuth, func(id string) bool { return id == node })
		},
	}
}

// serverTLS returns the configuration of connections from other nodes. Each whose certificate the authorities have
// signed may connect.
func (i *Identity) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{i.Certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    i.Authorities,
		VerifyConnection: func(state tls.ConnectionState) error {
			return i.verify(state, x509.ExtKeyUsageClientAuth, func(string) bool { return true })
		},
	}
}

// verify checks the chain and the node of the other end.
func (i *Identity) verify(state tls.ConnectionState, usage x509.ExtKeyUsage, wanted func(id string) bool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("peer: the other end has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: i.Authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	id, err := certs.NodeOf(leaf)
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	if !wanted(id) {
		return fmt.Errorf("peer: the other end is node %q, which is not expected here", id)
	}
	return nil
}
