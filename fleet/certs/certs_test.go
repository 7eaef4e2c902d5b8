package certs

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAuthority(t *testing.T) {
	made, err := NewAuthority("fleet")
	require.NoError(t, err)
	cert, key, err := made.PEM()
	require.NoError(t, err)
	a, err := ReadAuthority(cert, key)
	require.NoError(t, err)
	node, _, err := a.Issue("node-1", "127.0.0.1", "host")
	require.NoError(t, err)
	block, _ := pem.Decode(node)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err = leaf.Verify(x509.VerifyOptions{Roots: made.Pool(), KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: "host"})
		require.NoError(t, err)
	}
	id, err := NodeOf(leaf)
	require.NoError(t, err)
	require.Equal(t, "node-1", id)
	require.False(t, leaf.IsCA)

	other, err := NewAuthority("other")
	require.NoError(t, err)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: other.Pool()})
	require.Error(t, err)
	nodeCert, nodeKey, err := a.Issue("b")
	require.NoError(t, err)
	_, err = ReadAuthority(nodeCert, nodeKey)
	require.Error(t, err, "a node is no authority")
}

func TestNodeOf(t *testing.T) {
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return u
	}
	for _, row := range []struct {
		uris []*url.URL
		want string
	}{
		{[]*url.URL{NodeURI("a")}, "a"},
		{[]*url.URL{uri("spiffe://x/y"), NodeURI("a")}, "a"},
		{nil, ""},
		{[]*url.URL{uri("spiffe://x/a")}, ""},
		{[]*url.URL{uri("mcpvisor://other/a")}, ""},
		{[]*url.URL{uri("mcpvisor://node")}, ""},
		{[]*url.URL{uri("mcpvisor://node/a/b")}, ""},
		{[]*url.URL{uri("mcpvisor://node/")}, ""},
		{[]*url.URL{NodeURI("a"), NodeURI("b")}, ""},
	} {
		id, err := NodeOf(&x509.Certificate{URIs: row.uris})
		require.Equal(t, row.want == "", err != nil, "%v", row.uris)
		require.Equal(t, row.want, id)
	}
	for _, bad := range []string{"", "-a", "a b", "a/b", "ä", string(make([]byte, 65))} {
		require.Error(t, CheckNodeID(bad), "%q", bad)
	}
}
