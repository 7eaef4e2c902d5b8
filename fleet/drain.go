package fleet

import (
	"context"
	"strings"
	"time"
)

// followDrain drains this node when an operator has asked for it ([RequestDrain]), and returns then,
// or when ctx ends. A request for a life of an earlier process of this node, whose lease may not have
// ended yet, is not for this one.
func (n *Node) followDrain(ctx context.Context) {
	for ctx.Err() == nil {
		asked, err := n.awaitDrain(ctx, drainPrefix+n.id+"/")
		if asked {
			n.log.Info().Msg("an operator drains this node")
			n.runner.Drain()
			return
		}
		n.log.Debug().Err(err).Msg("requests of operators cannot be read; they are read again")
		select {
		case <-time.After(drainAgain):
		case <-ctx.Done():
		}
	}
}

const (
	drainAgain = time.Second
	drainRead  = 5 * time.Second
)

// awaitDrain waits until an operator asks for a drain, or the store fails.
func (n *Node) awaitDrain(ctx context.Context, prefix string) (asked bool, err error) {
	reading, cancel := context.WithTimeout(ctx, drainRead)
	snapshot, err := n.store.Read(reading, prefix)
	cancel()
	if err != nil {
		return false, err
	}
	for _, pair := range snapshot.Pairs {
		if n.hasLived(strings.TrimPrefix(pair.Key, prefix)) {
			return true, nil
		}
	}
	watch := n.store.Watch(ctx, prefix, snapshot.Revision)
	defer watch.Close()
	for {
		waiting, cancel := context.WithTimeout(ctx, staleAfter) // a connection that is lost may only be silent
		batch, err := watch.Next(waiting)
		cancel()
		if err != nil {
			return false, err
		}
		for _, event := range batch.Events {
			if !event.Removed && n.hasLived(strings.TrimPrefix(event.Pair.Key, prefix)) {
				return true, nil
			}
		}
	}
}

// hasLived reports whether this process has had a life.
func (n *Node) hasLived(life string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lives[life]
}
