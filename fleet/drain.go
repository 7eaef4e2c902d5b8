package fleet

import (
	"context"
	"time"
)

// followDrain drains this node when an operator has asked for it ([RequestDrain]), and returns then,
// or when ctx ends. A request for an earlier life is gone with it, so that a drain does not outlive
// this process.
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

// awaitDrain waits until somebody asks for a drain, or the store fails.
func (n *Node) awaitDrain(ctx context.Context, prefix string) (asked bool, err error) {
	reading, cancel := context.WithTimeout(ctx, drainRead)
	snapshot, err := n.store.Read(reading, prefix)
	cancel()
	if err != nil || len(snapshot.Pairs) > 0 {
		return err == nil, err
	}
	watch := n.store.Watch(prefix, snapshot.Revision)
	defer watch.Close()
	for {
		batch, err := watch.Next(ctx)
		if err != nil {
			return false, err
		}
		for _, event := range batch.Events {
			if !event.Removed {
				return true, nil
			}
		}
	}
}
