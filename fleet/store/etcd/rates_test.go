package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/etcdtest"
	"github.com/mcpvisor/mcpvisor/fleet/store"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

var rates = flag.Bool("etcd.rates", false, "measure how many commits and events a second one member of etcd carries, for docs/fleet.md")

func TestStore_rates(t *testing.T) {
	if !*rates {
		t.Skip("it measures; run it with -etcd.rates")
	}
	server := etcdtest.Start(t)
	s, err := etcd.Open(etcd.Config{Endpoints: []string{server.Endpoint}})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	for _, watchers := range []int{0, 10, 100, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		var (
			events  atomic.Int64
			open    sync.WaitGroup
			commits atomic.Int64
		)
		from, err := s.Read(ctx, "none")
		require.NoError(t, err)
		for range watchers {
			w := s.Watch(ctx, "place/", from.Revision)
			open.Go(func() {
				defer w.Close()
				for {
					batch, err := w.Next(ctx)
					if err != nil {
						return
					}
					events.Add(int64(len(batch.Events)))
				}
			})
		}
		const lasts = 5 * time.Second
		writing, end := context.WithTimeout(ctx, lasts)
		var writers sync.WaitGroup
		for i := range 64 {
			writers.Go(func() {
				for n := 0; writing.Err() == nil; n++ {
					key := fmt.Sprintf("place/server%d-%d-%d", watchers, i, n)
					result, err := s.Commit(writing, store.Txn{If: []store.Condition{store.Absent(key), store.Absent("nodes/a")}, Then: []store.Change{store.Put(key, make([]byte, 80))}})
					if err == nil && result.OK {
						commits.Add(1)
					}
				}
			})
		}
		writers.Wait()
		end()
		seen := events.Load()
		cancel()
		open.Wait()
		t.Logf("%d watches: %d commits a second, %d events a second", watchers, commits.Load()/5, seen/5)
	}
}
