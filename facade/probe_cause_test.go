package facade_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The cause of a server whose probes fail because of its certificate names the
// certificate.
func TestProbe_cause_names_expired_certificate(t *testing.T) {
	mcp := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(mcp.Close)
	target, err := url.Parse(mcp.URL)
	require.NoError(t, err)
	valid, roots := certificate(t, time.Now().Add(time.Hour))
	expired, _ := certificate(t, time.Now().Add(-time.Hour))
	var served atomic.Pointer[tls.Certificate]
	served.Store(valid)
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.URL.Path = target.Path }})
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*served.Load()}, MinVersion: tls.VersionTLS12}, nil
	}}
	front.StartTLS()
	t.Cleanup(front.Close)

	c := registered(t, mcpvisor.ServerSpec{Name: "web", Policy: supervisor.Retry(3, time.Hour),
		HTTP: &mcpvisor.HTTP{URL: front.URL, Client: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}},
		Probe: mcpvisor.Probe{Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Failures: 2}})
	served.Store(expired)
	front.CloseClientConnections()
	var cause string
	require.Eventually(t, func() bool {
		s, ok := c.ServerStatus("web")
		if !ok || s.LastCause == nil {
			return false
		}
		cause = s.LastCause.Message
		return true
	}, 10*time.Second, 5*time.Millisecond)
	require.Contains(t, cause, "liveness probes")
	require.Contains(t, cause, "has expired")
}

// certificate makes a certificate for 127.0.0.1, valid until end, and the pool
// that trusts it.
func certificate(t *testing.T, end time.Time) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
