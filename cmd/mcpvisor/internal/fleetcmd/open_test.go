package fleetcmd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
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
