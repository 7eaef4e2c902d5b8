package fleetcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
)

// login is the part of etcd that users log in to.
type login struct {
	etcdserverpb.UnimplementedAuthServer
	answer func(ctx context.Context) error
}

func (l login) Authenticate(ctx context.Context, _ *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	return nil, l.answer(ctx)
}

// TestOpen_with_a_user: a node waits for an etcd that does not answer, and not for one that refuses the user.
func TestOpen_with_a_user(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("p\n"), 0o600))
	var logins atomic.Int64
	var answer atomic.Pointer[error]
	set := func(err error) { answer.Store(&err) }
	server := grpc.NewServer()
	etcdserverpb.RegisterAuthServer(server, login{answer: func(ctx context.Context) error {
		if logins.Add(1) == 1 {
			<-ctx.Done() // there is no leader
			return ctx.Err()
		}
		return *answer.Load()
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-served) })
	r := reach{Etcd: []string{"http://" + l.Addr().String()}, EtcdPrefix: "x/", EtcdUser: "u", EtcdPasswordFile: password}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	set(rpctypes.ErrGRPCAuthNotEnabled)
	s, err := r.openUntil(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.EqualValues(t, 3, logins.Load(), "one without an answer, and those of two connections")

	logins.Store(0)
	_, err = r.open()
	require.ErrorContains(t, err, "check --etcd")
	require.Equal(t, cli.ExitUnavailable, cli.ExitCode(err))

	set(rpctypes.ErrGRPCAuthFailed)
	_, err = r.openUntil(ctx)
	require.ErrorContains(t, err, "authentication failed")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One command makes what nodes need. It adds nodes later, and never replaces a certificate.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	make := func(nodes ...string) error {
		cmd := &certsCmd{Dir: dir, Nodes: nodes, Host: []string{"*.etcd"}}
		return cmd.Run(&cli.Invocation{Context: t.Context(), Out: new(bytes.Buffer), Err: new(bytes.Buffer)})
	}
	require.NoError(t, make("a", "b"))
	require.NoError(t, make("c"), "by the authority that is there")
	pool, err := readAuthorities("--ca", filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	for _, node := range []string{"a", "b", "c"} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, node+".crt"), filepath.Join(dir, node+".key"))
		require.NoError(t, err)
		id, err := certs.NodeOf(pair.Leaf)
		require.NoError(t, err)
		require.Equal(t, node, id)
		for _, host := range []string{"localhost", "127.0.0.1", "etcd-0.etcd"} {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
			require.NoError(t, err)
		}
		if runtime.GOOS != "windows" {
			info, err := os.Stat(filepath.Join(dir, node+".key"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}
	}
	before, err := os.ReadFile(filepath.Join(dir, "a.crt"))
	require.NoError(t, err)
	require.ErrorContains(t, make("d", "a"), "exists already")
	after, err := os.ReadFile(filepath.Join(dir, "a.crt"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, filepath.Join(dir, "d.crt"))
	require.ErrorContains(t, make("../x"), "not usable")
	require.ErrorContains(t, make("ca"), "taken by the authority")
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.key")))
	require.ErrorContains(t, make("d"), "key of the authority cannot be read")
}

// The node must be the one that its certificate names.
func TestRun_identity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	require.NoError(t, (&certsCmd{Dir: dir, Nodes: []string{"a", "b"}}).Run(&cli.Invocation{Context: t.Context(), Out: new(bytes.Buffer), Err: new(bytes.Buffer)}))
	identity, err := (&runCmd{Node: "a", Certs: dir}).identity()
	require.NoError(t, err)
	node, err := identity.Node()
	require.NoError(t, err)
	require.Equal(t, "a", node)
	_, err = (&runCmd{Node: "a", Certs: dir, Cert: filepath.Join(dir, "b.crt"), Key: filepath.Join(dir, "b.key")}).identity()
	require.ErrorContains(t, err, `is the certificate of node "b"`)
	_, err = (&runCmd{Node: "z", Certs: dir}).identity()
	require.ErrorContains(t, err, "mcpvisor fleet certs DIR z")
	_, err = (&runCmd{Node: "z"}).identity()
	require.ErrorContains(t, err, "set --certs DIR")
}
