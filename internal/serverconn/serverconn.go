// Package serverconn makes the connections to one server over HTTP as its specification says: the
// trust in its certificate, the certificate of this client, a Unix socket.
package serverconn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// maxFileBytes is the longest file that is read.
const maxFileBytes = 1 << 20

// Problem is why there is no connection. Nothing was sent.
type Problem struct {
	Text, Hint string
	Gone       bool // nothing listens at the socket
	Err        error
}

// Error implements error.
func (p *Problem) Error() string { return p.Text }

// Unwrap returns what failed.
func (p *Problem) Unwrap() error { return p.Err }

// Configure makes t connect to the server of spec, and to no other. It reads no file: that is done
// for each connection, so that a file may be replaced.
func Configure(t *http.Transport, spec *mcpvisor.HTTP) {
	if spec.Socket != "" {
		t.Proxy, t.DialContext = nil, dialSocket(spec.Socket)
	}
	if spec.Socket != "" || spec.TLS != nil {
		t.Dial, t.DialTLS, t.DialTLSContext = nil, nil, nil //nolint:staticcheck // deprecated, and set by some hosts
	}
	if spec.TLS == nil {
		return
	}
	own := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLSClientConfig != nil {
		own = t.TLSClientConfig.Clone()
	}
	v := verifier{files: *spec.TLS}
	if u, err := url.Parse(spec.URL); err == nil {
		v.name = cmp.Or(spec.TLS.ServerName, own.ServerName, u.Hostname())
	}
	own.ServerName = cmp.Or(spec.TLS.ServerName, own.ServerName)
	if spec.TLS.CertFile != "" {
		own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return clientCertificate(spec.TLS) }
	}
	v.next, own.VerifyConnection = own.VerifyConnection, v.verify
	if spec.TLS.CAFile != "" { // verify does it, because RootCAs would be read only once
		own.InsecureSkipVerify = true
	}
	t.TLSClientConfig = own
}

// TrustCA makes t, which connects to other servers, trust the authorities of spec beside those of
// the system.
func TrustCA(t *http.Transport, spec *mcpvisor.HTTP) error {
	if spec.TLS == nil || spec.TLS.CAFile == "" {
		return nil
	}
	own := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLSClientConfig != nil {
		own = t.TLSClientConfig.Clone()
	}
	pool := own.RootCAs
	if pool == nil {
		var err error
		if pool, err = x509.SystemCertPool(); err != nil {
			pool = x509.NewCertPool()
		}
	}
	own.RootCAs = pool.Clone()
	t.TLSClientConfig = own
	return addAuthorities(own.RootCAs, spec.TLS.CAFile)
}

// verifier checks the certificate of the server.
type verifier struct {
	files mcpvisor.TLS
	name  string                          // of the server
	next  func(tls.ConnectionState) error // of the host; may be nil
}

// verify is tls.Config.VerifyConnection.
func (v *verifier) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server sent no certificate")
	}
	leaf := state.PeerCertificates[0]
	if v.files.CAFile != "" {
		// The name is not that of state, which is empty for an address.
		opts := x509.VerifyOptions{DNSName: v.name, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
		if err := addAuthorities(opts.Roots, v.files.CAFile); err != nil {
			return err
		}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		if _, err := leaf.Verify(opts); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
	}
	if err := checkPin(leaf, v.files.Pins); err != nil {
		return err
	}
	if v.next != nil {
		return v.next(state)
	}
	return nil
}

// checkPin compares the public key of a certificate with the pins. Without pins each key will do.
func checkPin(leaf *x509.Certificate, pins []string) error {
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	digest := base64.StdEncoding.EncodeToString(sum[:])
	if len(pins) == 0 || slices.ContainsFunc(pins, func(pin string) bool { return strings.TrimPrefix(pin, "sha256/") == digest }) {
		return nil
	}
	return &Problem{Text: "the server has another public key than the pinned one: sha256/" + digest,
		Hint: "if its operator has replaced the key, change the pin (HTTP.TLS.Pins); otherwise another server answers"}
}

// clientCertificate reads the certificate of this client.
func clientCertificate(files *mcpvisor.TLS) (*tls.Certificate, error) {
	cert, err := readFile("client certificate", files.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readFile("key of the client certificate", files.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("the client certificate %s and the key %s cannot be used: %v", files.CertFile, files.KeyFile, err),
			Hint: "name a certificate in PEM and the key that belongs to it, which must not be encrypted", Err: err}
	}
	return &pair, nil
}

// addAuthorities adds the certificates of a file to a pool.
func addAuthorities(pool *x509.CertPool, path string) error {
	text, err := readFile("certificate of the authority", path)
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = &Problem{Text: "the file " + path + " holds no certificate that can be used", Hint: "name a file with certificates in PEM (HTTP.TLS.CAFile)"}
	}
	return err
}

func readFile(what, path string) ([]byte, error) {
	text, err := regularfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, &Problem{Text: fmt.Sprintf("the %s cannot be read: %v", what, withPath(err, path)), Hint: "create the file, correct its path, or let this user read it", Err: err}
	}
	return text, nil
}

// withPath returns err with the path that it is about.
func withPath(err error, path string) error {
	if named := (*fs.PathError)(nil); errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// dialSocket connects to a Unix socket, whatever the address.
func dialSocket(path string) func(context.Context, string, string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		p := &Problem{Text: fmt.Sprintf("cannot connect to the socket %s: %v", path, err), Hint: "check the path (HTTP.Socket)", Err: err}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			p.Text, p.Hint, p.Gone = "the socket "+path+" does not exist", "start the server, or correct the path (HTTP.Socket)", true
		case errors.Is(err, syscall.ECONNREFUSED):
			p.Text, p.Hint, p.Gone = "no program listens at the socket "+path, "start the server; if it has ended, the socket is a leftover of it", true
		case errors.Is(err, fs.ErrPermission):
			p.Text, p.Hint = "this user may not use the socket "+path, "change the mode of the socket or of its directory, or the user"
		}
		return nil, p
	}
}
