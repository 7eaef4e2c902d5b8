package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	server := etcdtest.Start(t)
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint}})
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	var number atomic.Int32
	t.Run("conformance", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Subject {
			s, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint}, Prefix: fmt.Sprintf("test%d/", number.Add(1))})
			require.NoError(t, err)
			return storetest.Subject{
				Store: s,
				Compact: func(revision int64) {
					_, err := raw.Compact(t.Context(), revision)
					require.NoError(t, err)
				},
				Away: func() func() {
					server.Kill()
					return func() { server.Run(t) }
				},
			}
		})
	})
}

func TestOpen_needsEndpoints(t *testing.T) {
	_, err := etcd.Open(etcd.Config{})
	require.ErrorContains(t, err, "no endpoints")
}

// TestOpen_no_answer: with a user, an etcd that is away can be told from one that refuses.
func TestOpen_no_answer(t *testing.T) {
	_, err := etcd.Open(etcd.Config{Endpoints: []string{"http://127.0.0.1:9"}, Username: "u", Password: "p"})
	require.ErrorIs(t, err, etcd.ErrNoAnswer)
}
