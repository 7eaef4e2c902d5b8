package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
)

// requireRefused checks that a client cannot connect, and that it learns why. It may take a few
// attempts: an end that is refused in the middle of the handshake may see a broken connection only.
func requireRefused(t *testing.T, config ClientConfig, why string) {
	t.Helper()
	c, err := NewClient(config)
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool {
		err = c.Reachable()
		require.Error(t, err)
		return strings.Contains(err.Error(), why)
	}, 20*time.Second, time.Millisecond)
	_, err = c.Route("s", 1).CallToolRaw(within(t), "s/x", []byte("1"))
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
}

// TestIdentity: neither side talks to a node that it should not talk to.
func TestIdentity(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, ours, "b"), Local: echo})
	mixed := func(node string) Identity { // trusts our authority, and is of another
		id := identity(t, theirs, node)
		id.Authorities = ours.Pool()
		return id
	}
	for name, row := range map[string]struct {
		config ClientConfig
		why    string
	}{
		"the client is of another authority": {ClientConfig{Identity: mixed("a"), Node: "b"}, "certificate"},
		"the server is of another authority": {ClientConfig{Identity: identity(t, theirs, "a"), Node: "b"}, "unknown authority"},
		"the server is another node":         {ClientConfig{Identity: identity(t, ours, "a"), Node: "c"}, "which is not expected here"},
	} {
		t.Run(name, func(t *testing.T) {
			row.config.Address = address
			requireRefused(t, row.config, row.why)
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: ours.Pool(), InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
		conn, err := dialer.DialContext(within(t), "tcp", address)
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // TLS 1.3: the refusal comes after the handshake of the client
			_ = conn.Close()
		}
		require.ErrorContains(t, err, "certificate required")
	})
	t.Run("a certificate for servers only", func(t *testing.T) {
		id := identity(t, ours, "a")
		require.Contains(t, id.Certificate.Leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		require.Error(t, id.verify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{id.Certificate.Leaf}}, x509.ExtKeyUsageCodeSigning, func(string) bool { return true }))
	})
	t.Run("no node in the certificate", func(t *testing.T) {
		_, err := NewServer(ServerConfig{Identity: Identity{}, Local: echo, Check: always})
		require.Error(t, err)
		_, err = NewClient(ClientConfig{Identity: identity(t, ours, "a"), Node: "no node", Address: address})
		require.Error(t, err)
	})
	c := connect(t, ClientConfig{Identity: identity(t, ours, "a"), Address: address})
	_, err := c.Route("s", 1).CallToolRaw(context.Background(), "s/x", []byte("1"))
	require.NoError(t, err)
	require.Equal(t, "mcpvisor://node/b", certs.NodeURI("b").String())
}
