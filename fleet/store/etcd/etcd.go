// Package etcd is not part of the stable API. It is the store of a fleet in etcd, version 3.4 or
// later.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// Config says how etcd is reached.
type Config struct {
	// Endpoints are the addresses of its members, as https://host:2379. At least one.
	Endpoints []string
	// Prefix is put before every key. Default: "mcpvisor/".
	Prefix string
	// TLS has the certificates; nil: no TLS, for etcd on the same machine.
	TLS *tls.Config
	// Username and Password, if etcd asks for them. The user needs a role for Prefix only.
	Username, Password string
}

const (
	defaultPrefix = "mcpvisor/"
	dialTimeout   = 3 * time.Second
	// A connection that is silent is tested, so that calls change to another member.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
	// progressEvery is how often a watch asks whether it is alive.
	progressEvery = 2 * time.Second
)

// redial is how often a member that is away is tried. By default the pauses grow to two minutes, and
// exclusive servers would stay down for as long after the members have come back.
var redial = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: dialTimeout,
}

// Store is a [store.Store] in etcd.
type Store struct {
	prefix string
	client *clientv3.Client
	// leases has a connection of its own: on a shared one, renewals wait behind everything else.
	leases *clientv3.Client
	// closed ends with Close; the client alone would repeat a call for seconds.
	closed context.Context
	end    func()
}

var _ store.Store = (*Store)(nil)

// ErrNoAnswer: etcd did not answer while a store was opened. It may do so later.
var ErrNoAnswer = errors.New("it does not answer")

// Open makes a store. Without Username it does not wait until etcd answers. With Username it logs in: it
// waits three seconds at most for etcd, and returns [ErrNoAnswer] then.
func Open(c Config) (*Store, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints; name at least one, as https://host:2379")
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	client, err := dial(c)
	if err != nil {
		return nil, err
	}
	leases, err := dial(c)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s := &Store{prefix: c.Prefix, client: client, leases: leases}
	s.closed, s.end = context.WithCancel(context.Background())
	return s, nil
}

func dial(c Config) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: c.TLS, Username: c.Username, Password: c.Password,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(redial)},
		DialTimeout: dialTimeout, DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: pingTimeout,
		Logger: zap.NewNop(), // what fails is returned
	})
	at := strings.Join(c.Endpoints, ", ")
	switch code := status.Code(err); {
	case err == nil:
		return client, nil
	case errors.Is(err, context.DeadlineExceeded), code == codes.Unavailable, code == codes.DeadlineExceeded:
		return nil, fmt.Errorf("etcd at %s: %w: %w", at, ErrNoAnswer, err)
	}
	return nil, fmt.Errorf("etcd at %s: %w", at, err)
}

// Close ends both connections.
func (s *Store) Close() error {
	select {
	case <-s.closed.Done():
		return nil
	default:
	}
	s.end()
	return errors.Join(s.client.Close(), s.leases.Close())
}

// untilClosed returns a context that also ends with Close.
func (s *Store) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// Grant makes a lease. etcd counts in seconds, so ttl is rounded up.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	ctx, done := s.untilClosed(ctx)
	defer done()
	reply, err := s.leases.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, s.failure("grant a lease", err)
	}
	return store.Lease(reply.ID), nil
}

// Renew renews a lease.
func (s *Store) Renew(ctx context.Context, lease store.Lease) error {
	ctx, done := s.untilClosed(ctx)
	defer done()
	_, err := s.leases.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	return s.failure("renew a lease", err)
}

// Revoke ends a lease.
func (s *Store) Revoke(ctx context.Context, lease store.Lease) error {
	ctx, done := s.untilClosed(ctx)
	defer done()
	_, err := s.leases.Revoke(ctx, clientv3.LeaseID(lease))
	if err = s.failure("revoke a lease", err); errors.Is(err, store.ErrLeaseGone) {
		return nil
	}
	return err
}

// Read returns the pairs below a prefix, by a linearizable read.
func (s *Store) Read(ctx context.Context, prefix string) (store.Snapshot, error) {
	ctx, done := s.untilClosed(ctx)
	defer done()
	reply, err := s.client.Get(ctx, s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return store.Snapshot{}, s.failure("read", err)
	}
	snapshot := store.Snapshot{Revision: reply.Header.Revision, Pairs: make([]store.Pair, len(reply.Kvs))}
	for i, kv := range reply.Kvs {
		snapshot.Pairs[i] = s.pair(kv)
	}
	return snapshot, nil
}

// Commit carries out a transaction.
func (s *Store) Commit(ctx context.Context, txn store.Txn) (store.Result, error) {
	conditions := make([]clientv3.Cmp, len(txn.If))
	current := make([]clientv3.Op, len(txn.If))
	for i, c := range txn.If {
		key := s.prefix + c.Key
		current[i] = clientv3.OpGet(key)
		if c.Exists {
			conditions[i] = clientv3.Compare(clientv3.ModRevision(key), ">", 0)
		} else {
			conditions[i] = clientv3.Compare(clientv3.ModRevision(key), "=", c.Revision)
		}
	}
	changes := make([]clientv3.Op, len(txn.Then))
	for i, c := range txn.Then {
		switch key := s.prefix + c.Key; {
		case c.Remove:
			changes[i] = clientv3.OpDelete(key)
		case c.Lease != 0:
			changes[i] = clientv3.OpPut(key, string(c.Value), clientv3.WithLease(clientv3.LeaseID(c.Lease)))
		default:
			changes[i] = clientv3.OpPut(key, string(c.Value))
		}
	}
	ctx, done := s.untilClosed(ctx)
	defer done()
	reply, err := s.client.Txn(ctx).If(conditions...).Then(changes...).Else(current...).Commit()
	if err != nil {
		return store.Result{}, s.failure("commit", err)
	}
	result := store.Result{OK: reply.Succeeded, Revision: reply.Header.Revision}
	if !reply.Succeeded {
		for _, response := range reply.Responses {
			for _, kv := range response.GetResponseRange().GetKvs() {
				result.Current = append(result.Current, s.pair(kv))
			}
		}
	}
	return result, nil
}

// failure translates an error of etcd.
func (s *Store) failure(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return store.ErrLeaseGone
	case s.closed.Err() != nil:
		return store.ErrClosed
	}
	return fmt.Errorf("etcd: cannot %s: %w", what, err)
}
