package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
)

// follow has the session of a server follow its route: one that goes elsewhere ends, and the next one
// goes the new way. Many events may ask for it at a time; each route gets one restart.
func (n *Node) follow(name string) {
	n.mu.Lock()
	_, busy := n.following[name]
	n.following[name] = busy
	n.mu.Unlock()
	if busy {
		return
	}
	n.work.Go(func() {
		for {
			n.followNow(name)
			n.mu.Lock()
			if !n.following[name] {
				delete(n.following, name)
				n.mu.Unlock()
				return
			}
			n.following[name] = false
			n.mu.Unlock()
		}
	})
}

// followNow restarts the session until one goes the way that the route is then.
func (n *Node) followNow(name string) {
	for {
		ctx, cancel := context.WithTimeout(n.ctx, followTimeout)
		if s := n.routes.outdated(name); s != nil {
			s.settle(ctx)
		}
		if !n.routes.ask(name) {
			cancel()
			return
		}
		err := relay.Of(n.Client).RestartFor(ctx, name, n.routes.wayOf(name).cause())
		cancel()
		if err == nil {
			return
		}
		n.routes.unask(name)
		// It is not registered yet, or no longer, or is just being unregistered: then there is nothing to do.
		if errors.Is(err, mcpvisor.ErrUnknownServer) || errors.Is(err, mcpvisor.ErrClosed) || n.ctx.Err() != nil {
			return
		}
		n.log.Warn().Err(err).Str("server", name).Msg("the way to the server has changed, and its session does not follow")
		if errors.Is(err, mcpvisor.ErrEvicted) {
			return
		}
		select {
		case <-time.After(followAgain):
		case <-n.ctx.Done():
		}
	}
}

const (
	followTimeout = 10 * time.Second
	followAgain   = time.Second
)
