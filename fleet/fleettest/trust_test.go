//go:build linux

package fleettest

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

// TestTrust is line 11 of the table in docs/fleet.md: who has no certificate of the authority reaches no node, nor does a node that
// is not the one it was taken for. The store has no secret.
func TestTrust(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	f := Start(t, Options{TTL: ttl(), Nodes: 2, Env: []string{"MCPVISOR_FLEETTEST_SECRET=" + secret}})
	all := Servers(4, 2)
	for i := range all {
		all[i].Env = map[string]string{TokenName: "${MCPVISOR_FLEETTEST_SECRET}"}
	}
	f.Apply(all)
	a := f.Nodes["a"]
	f.answers(a, "after the start", time.Minute)
	for _, name := range f.Names() {
		c := must[Call](a, "call", callCommand{name, callOptions{Timeout: 20 * time.Second}})
		require.Equal(t, secret, c.Token, "%s has not got it", name)
	}

	t.Run("no certificate", func(t *testing.T) {
		conn, err := tls.Dial("tcp", a.config.Listen, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err == nil {
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 the refusal comes after the handshake
			_ = conn.Close()
		}
		require.ErrorContains(t, err, "certificate required")
	})
	other, err := certs.NewAuthority("other")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		authority *certs.Authority
		id, node  string
		reachable bool
	}{
		"the right one":             {f.Authority, "b", "a", true},
		"another authority":         {other, "b", "a", false},
		"another node was expected": {f.Authority, "b", "c", false},
	} {
		t.Run(name, func(t *testing.T) {
			cert, err := c.authority.IssueTLS(c.id)
			require.NoError(t, err)
			client, err := peer.NewClient(peer.ClientConfig{
				Identity: peer.Identity{Certificate: cert, Authorities: f.Authority.Pool()}, Node: c.node, Address: a.config.Listen,
			})
			require.NoError(t, err)
			defer client.Close()
			wait := 20 * time.Second
			if !c.reachable {
				wait = 2 * time.Second // in which it could connect
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			err = client.WaitReachable(ctx)
			require.Equal(t, c.reachable, err == nil, "%v", err)
			t.Log(client.Reachable())
		})
	}

	s, err := etcd.Open(etcd.Config{Endpoints: []string{f.Etcd[0].Endpoint}})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	noSecret := func() {
		t.Helper()
		snapshot, err := s.Read(t.Context(), "")
		require.NoError(t, err)
		require.NotEmpty(t, snapshot.Pairs)
		for _, p := range snapshot.Pairs {
			for _, text := range []string{secret, "PRIVATE KEY", "sk-ant-"} {
				require.NotContains(t, string(p.Value), text, p.Key)
			}
		}
	}
	noSecret() // mcpvisor fleet apply refuses those that are written out: its own test shows that
}
