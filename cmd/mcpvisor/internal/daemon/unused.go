package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

const (
	// firstHostTimeout is how long a run with --until-unused waits for its first session.
	firstHostTimeout = time.Minute
	// unusedTimeout is how long it waits for another one. A host that restarts finds its servers
	// running.
	unusedTimeout = 10 * time.Second
)

var errNoSocket = errors.New("--until-unused: this run has no socket, so nothing could use it")

// endUnused ends the context of inv when no MCP session has been open for a while, or when a run of the user takes over.
func endUnused(inv *servers.Opener, h *control.Handler) error {
	if h == nil {
		return errNoSocket
	}
	ctx, cancel := context.WithCancel(inv.Context)
	inv.Context = ctx
	timer := time.AfterFunc(firstHostTimeout, cancel)
	context.AfterFunc(ctx, func() { timer.Stop() })
	first := true
	h.FollowSessions(func(open int) {
		switch {
		case open > 0:
			timer.Stop()
			first = false
		case !first:
			timer.Reset(unusedTimeout)
		}
	}, cancel)
	return nil
}
