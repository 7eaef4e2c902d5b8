// Package certs is not part of the stable API. It makes certificates for the nodes of a fleet: an authority, and one certificate for
// each node that names the node in a URI. They suit tests and small installations; package peer
// accepts those of any other authority with the same URI.
package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"regexp"
	"time"
)

// Lifetime is how long an authority and the certificates of nodes are valid.
const Lifetime = 10 * 365 * 24 * time.Hour

// nodeURI is what precedes the id of a node in the URI of its certificate.
const (
	uriScheme = "mcpvisor"
	uriHost   = "node"
)

var nodeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// CheckNodeID returns what is wrong with the id of a node; nil if nothing. An id has 1 to 64
// characters of [A-Za-z0-9_.-], the first a letter or a digit.
func CheckNodeID(id string) error {
	if !nodeID.MatchString(id) {
		return fmt.Errorf("node id %q is not usable; use 1 to 64 letters, digits, '_', '.' or '-', the first a letter or a digit", shown(id))
	}
	return nil
}

func shown(id string) string { return id[:min(len(id), 80)] }

// NodeURI returns the URI that names a node in its certificate, as in "mcpvisor://node/a".
func NodeURI(id string) *url.URL { return &url.URL{Scheme: uriScheme, Host: uriHost, Path: "/" + id} }

// NodeOf returns the id of the node that a certificate names. It must name exactly one.
func NodeOf(cert *x509.Certificate) (string, error) {
	id := ""
	for _, uri := range cert.URIs {
		if uri.Scheme != uriScheme || uri.Host != uriHost {
			continue
		}
		if id != "" {
			return "", errors.New("the certificate names two nodes; issue one for each node")
		}
		if id = uri.Path; id != "" {
			id = id[1:]
		}
		if err := CheckNodeID(id); err != nil {
			return "", fmt.Errorf("the certificate names a node that cannot be: %w", err)
		}
	}
	if id == "" {
		return "", errors.New("the certificate names no node; it needs a URI such as " + NodeURI("a").String())
	}
	return id, nil
}

// Authority signs the certificates of nodes.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a new key.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert, key}, nil
}

// ReadAuthority reads an authority from what [Authority.PEM] has returned.
func ReadAuthority(cert, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("read the authority: package certs did not make it; use the files of its own authority, or another program for certificates of this one")
	}
	return &Authority{pair.Leaf, private}, nil
}

// PEM returns the certificate of the authority, which every node needs, and its private key, which
// none needs.
func (a *Authority) PEM() (cert, key []byte, err error) { return encode(a.cert.Raw, a.key) }

// Pool returns the authority as the only one that a node trusts.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue makes the certificate of a node, for both ends of a connection. hosts are the names and
// addresses of the machine, for tools that compare them; nodes compare the URI only.
func (a *Authority) Issue(id string, hosts ...string) (cert, key []byte, err error) {
	if err := CheckNodeID(id); err != nil {
		return nil, nil, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate(id)
	if err != nil {
		return nil, nil, err
	}
	template.URIs = []*url.URL{NodeURI(id)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	return encode(der, private)
}

// IssueTLS is [Authority.Issue] for a certificate that stays in memory.
func (a *Authority) IssueTLS(id string, hosts ...string) (tls.Certificate, error) {
	cert, key, err := a.Issue(id, hosts...)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

func newTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(Lifetime)}, nil // clocks may differ
}

func encode(cert []byte, key *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	var c, k bytes.Buffer
	if err := errors.Join(pem.Encode(&c, &pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.Encode(&k, &pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, nil, err
	}
	return c.Bytes(), k.Bytes(), nil
}
