package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// followDrain drains this node when an operator has asked for it ([RequestDrain]), and returns then,
// or when ctx ends. A request for a life of an earlier process of this node, whose lease may not have
// ended yet, is not for this one.
func (n *Node) followDrain(ctx context.Context) {
	prefix, asked := drainPrefix+n.id+"/", false
	for ctx.Err() == nil {
		err := followPrefix(ctx, n.store, prefix, new(int64), func(e store.Event) bool {
			asked = !e.Removed && n.hasLived(strings.TrimPrefix(e.Pair.Key, prefix))
			return !asked
		})
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
	drainAgain  = time.Second
	readTimeout = 5 * time.Second
)

// hasLived reports whether this process has had a life.
func (n *Node) hasLived(life string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lives[life]
}
