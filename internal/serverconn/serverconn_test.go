package serverconn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial atomic.Int64

// newCertificate makes a certificate for names, signed by its issuer; nil: by itself, as an authority.
func newCertificate(t *testing.T, issuer *authority, names ...string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	parent := issuer
	if issuer == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &key.PublicKey, parent.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key}
}

// write writes the certificate and its key into a directory.
func (a *authority) write(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return cert, key
}

func (a *authority) pin() string {
	sum := sha256.Sum256(a.cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// newProxy returns an unstarted server in front of an MCP server, and the highest version of HTTP that it got.
func newProxy(t *testing.T) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	server := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	var version atomic.Int32
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		version.Store(int32(r.In.ProtoMajor))
		r.SetURL(target)
		r.Out.URL.Path = target.Path
	}}
	s := httptest.NewUnstartedServer(proxy)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s, &version
}

// start registers a server and calls its tool.
func start(t *testing.T, spec mcpvisor.HTTP) error {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &spec, Policy: supervisor.NoRetry()}); err != nil {
		return err
	}
	_, err = c.CallTool(t.Context(), "s/echo", map[string]any{"text": "hello"})
	return err
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca := newCertificate(t, nil)
	caFile, caKey := ca.write(t, dir, "ca")
	serverCert := newCertificate(t, ca, "127.0.0.1")
	certFile, keyFile := newCertificate(t, ca).write(t, dir, "client")
	s, version := newProxy(t)
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{serverCert.cert.Raw}, PrivateKey: serverCert.key}}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.StartTLS()
	inURL := s.URL + "/mcp"
	none := filepath.Join(dir, "none.pem")

	whole := mcpvisor.TLS{CAFile: caFile, CertFile: certFile, KeyFile: keyFile, Pins: []string{newCertificate(t, nil).pin(), "sha256/" + serverCert.pin()}}
	require.NoError(t, start(t, mcpvisor.HTTP{URL: inURL, TLS: &whole}))
	require.EqualValues(t, 2, version.Load())
	for says, change := range map[string]func(*mcpvisor.TLS){
		"is not trusted": func(c *mcpvisor.TLS) { c.CAFile = "" },
		"another public key than the pinned one: sha256/" + serverCert.pin(): func(c *mcpvisor.TLS) { c.Pins = c.Pins[:1] },
		"but wanted to match other":                           func(c *mcpvisor.TLS) { c.ServerName = "other" },
		"authority cannot be read: stat " + none:              func(c *mcpvisor.TLS) { c.CAFile = none },
		"the client certificate cannot be read: stat " + none: func(c *mcpvisor.TLS) { c.CertFile = none },
		"holds no certificate":                                func(c *mcpvisor.TLS) { c.CAFile = caKey },
		"private key does not match":                          func(c *mcpvisor.TLS) { c.KeyFile = caKey },
	} {
		broken := whole
		change(&broken)
		require.ErrorContains(t, start(t, mcpvisor.HTTP{URL: inURL, TLS: &broken}), says)
	}
}

// A server that demands a certificate answers no client without one.
func TestTLS_without_client_certificate(t *testing.T) {
	s, version := newProxy(t)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	dir := t.TempDir()
	own := s.TLS.Certificates[0]
	cert := filepath.Join(dir, "server.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), 0o600))
	spec := mcpvisor.HTTP{URL: s.URL + "/mcp", TLS: &mcpvisor.TLS{CAFile: cert}}
	require.Error(t, start(t, spec))
	require.Zero(t, version.Load())
	spec.TLS.CertFile, spec.TLS.KeyFile = newCertificate(t, nil).write(t, dir, "client")
	require.NoError(t, start(t, spec))
}

// With an address in the URL the name in the certificate is checked, too, though TLS sends none.
func TestTLS_name(t *testing.T) {
	dir := t.TempDir()
	ca := newCertificate(t, nil)
	caFile, _ := ca.write(t, dir, "ca")
	serverCert := newCertificate(t, ca, "mcp.internal")
	s, _ := newProxy(t)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{serverCert.cert.Raw}, PrivateKey: serverCert.key}}}
	s.StartTLS()
	require.ErrorContains(t, start(t, mcpvisor.HTTP{URL: s.URL + "/mcp", TLS: &mcpvisor.TLS{CAFile: caFile}}), "is not trusted")
	require.NoError(t, start(t, mcpvisor.HTTP{URL: s.URL + "/mcp", TLS: &mcpvisor.TLS{CAFile: caFile, ServerName: "mcp.internal"}}))
}

// Files are read for each new connection.
func TestTLS_files_replaced(t *testing.T) {
	dir := t.TempDir()
	first, second := newCertificate(t, nil), newCertificate(t, nil)
	caFile, _ := first.write(t, dir, "ca")
	var current atomic.Pointer[authority]
	current.Store(newCertificate(t, first, "127.0.0.1"))
	s, _ := newProxy(t)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := current.Load()
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key}}}, nil
	}}
	s.StartTLS()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	spec := mcpvisor.HTTP{URL: s.URL + "/mcp", TLS: &mcpvisor.TLS{CAFile: caFile}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", HTTP: &spec, Policy: supervisor.Retry(3, time.Millisecond)}))
	current.Store(newCertificate(t, second, "127.0.0.1"))
	second.write(t, dir, "ca")
	require.NoError(t, c.Restart(t.Context(), "s"))
	require.NoError(t, c.WaitReady(t.Context()))
	require.NoError(t, c.Ping(t.Context(), "s"))
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "mcp.sock")
	spec := mcpvisor.HTTP{URL: "http://localhost/mcp", Socket: path}
	err = start(t, spec)
	require.ErrorContains(t, err, "the socket "+path+" does not exist")
	require.ErrorContains(t, err, "start the server, or correct the path")

	s, _ := newProxy(t)
	_ = s.Listener.Close()
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	s.Listener = listener
	s.Start()
	require.NoError(t, start(t, spec))
	s.CloseClientConnections()
	s.Close()
	require.ErrorContains(t, start(t, spec), "no program listens at the socket "+path)
	require.Equal(t, "http://localhost/mcp at "+path, mcpvisor.ServerSpec{HTTP: &spec}.Target())
}

func TestValidate(t *testing.T) {
	for says, spec := range map[string]mcpvisor.HTTP{
		"belong together":            {URL: "https://h/mcp", TLS: &mcpvisor.TLS{CertFile: "a"}},
		"has no effect":              {URL: "http://h/mcp", TLS: &mcpvisor.TLS{CAFile: "a"}},
		`"abc" is no SHA-256 digest`: {URL: "https://h/mcp", TLS: &mcpvisor.TLS{Pins: []string{"abc"}}},
		"is longer than 107 bytes":   {URL: "http://h/mcp", Socket: string(make([]byte, 108))},
		"need a HTTP.Client":         {URL: "http://h/mcp", Socket: "s", Client: &http.Client{Transport: http.NewFileTransport(nil)}},
	} {
		require.ErrorContains(t, mcpvisor.ServerSpec{Name: "s", HTTP: &spec}.Validate(), says)
	}
	a := mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "https://h/mcp", TLS: &mcpvisor.TLS{Pins: []string{"a"}}}}
	b := mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: "https://h/mcp", TLS: &mcpvisor.TLS{Pins: []string{"a"}}}}
	require.True(t, a.Equal(b))
	b.HTTP.TLS.Pins[0] = "b"
	require.False(t, a.Equal(b))
}
