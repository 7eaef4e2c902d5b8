package safehttp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// The certificate of the client and the pins are for the server alone. The authorities of the spec are
// trusted at the authorization server, too.
func TestClient_TLS_of_the_spec(t *testing.T) {
	start := func() (*httptest.Server, func() int) {
		certificates := 0
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			certificates = len(r.TLS.PeerCertificates)
			_, _ = w.Write([]byte("{}"))
		}))
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s, func() int { return certificates }
	}
	server, serverGot := start()
	other, otherGot := start()
	own := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	require.NoError(t, err)
	cert, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	u, err := url.Parse(server.URL)
	require.NoError(t, err)

	var document map[string]any
	plain := New(u, &mcpvisor.HTTP{URL: server.URL})
	require.Error(t, plain.GetJSON(t.Context(), server.URL+"/a", &document))
	c := New(u, &mcpvisor.HTTP{URL: server.URL, TLS: &mcpvisor.TLS{CAFile: cert, CertFile: cert, KeyFile: keyFile}})
	require.NoError(t, c.GetJSON(t.Context(), server.URL+"/a", &document))
	require.Equal(t, 1, serverGot())
	require.NoError(t, c.GetJSON(t.Context(), other.URL+"/a", &document))
	require.Zero(t, otherGot())
	pinned := New(u, &mcpvisor.HTTP{URL: server.URL, TLS: &mcpvisor.TLS{CAFile: cert, Pins: []string{"sha256/none"}}})
	require.ErrorContains(t, pinned.GetJSON(t.Context(), server.URL+"/a", &document), "pinned")
	require.NoError(t, pinned.GetJSON(t.Context(), other.URL+"/a", &document))
}
