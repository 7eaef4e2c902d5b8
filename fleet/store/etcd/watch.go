package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

func (s *Store) pair(kv *mvccpb.KeyValue) store.Pair {
	return store.Pair{
		Key: strings.TrimPrefix(string(kv.Key), s.prefix), Value: kv.Value, Revision: kv.ModRevision, Lease: store.Lease(kv.Lease),
	}
}

// Watch yields what changes below a prefix after a revision. The client of etcd connects again by
// itself, and continues after the last event that it has received.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) store.Watcher {
	// A member that has lost its leader ends the watch, and does not stay silent.
	ctx, cancel := s.untilClosed(clientv3.WithRequireLeader(ctx))
	w := &watcher{store: s, ctx: ctx, cancel: cancel, revision: after, begun: make(chan clientv3.WatchChan, 1)}
	// The client returns when etcd has confirmed the watch, or ctx ends.
	go func() {
		w.begun <- s.client.Watch(ctx, s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1))
	}()
	return w
}

type watcher struct {
	store     *Store
	ctx       context.Context
	cancel    func()
	begun     chan clientv3.WatchChan // yields responses once
	responses clientv3.WatchChan      // nil before
	revision  int64
	err       error
}

var errEnded = errors.New("etcd: the watch has ended")

// Next waits for the next batch. The revision of a batch is that of its last event: the one in the
// header of a progress report can be too high in etcd before 3.4.25 and 3.5.8
// (etcd-io/etcd#15220), and events would be left out.
func (w *watcher) Next(ctx context.Context) (store.Batch, error) {
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	for w.err == nil {
		select {
		case <-ctx.Done():
			return store.Batch{}, context.Cause(ctx)
		case <-progress.C:
			// An error shows in the watch, too, or as its silence.
			if w.responses != nil {
				go func() { _ = w.store.client.RequestProgress(w.ctx) }()
			}
		case w.responses = <-w.begun:
		case response, open := <-w.responses:
			if w.err = w.failure(response, open); w.err != nil {
				w.cancel()
				return store.Batch{}, w.err
			}
			batch := store.Batch{Revision: w.revision}
			for _, e := range response.Events {
				event := store.Event{Pair: w.store.pair(e.Kv), Removed: e.Type == clientv3.EventTypeDelete}
				if event.Removed {
					event.Pair = store.Pair{Key: event.Pair.Key, Revision: event.Pair.Revision}
				}
				batch.Events = append(batch.Events, event)
				batch.Revision = event.Pair.Revision
			}
			w.revision = batch.Revision
			return batch, nil
		}
	}
	return store.Batch{}, w.err
}

func (w *watcher) failure(response clientv3.WatchResponse, open bool) error {
	switch {
	case response.CompactRevision != 0:
		return store.ErrCompacted
	case w.store.closed.Err() != nil:
		return store.ErrClosed
	case !open:
		return errEnded
	case response.Err() != nil:
		return fmt.Errorf("etcd: the watch has ended: %w", response.Err())
	}
	return nil
}

// Close gives the watch back.
func (w *watcher) Close() {
	w.err = errEnded
	w.cancel()
}
