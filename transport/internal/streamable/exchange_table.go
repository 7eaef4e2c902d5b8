package streamable

import (
	"context"
	"maps"
	"slices"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// exchangeTable holds the exchanges under way on one session: requests of ours, and
// what else is sent. An exchange that has ended stays until it is finished: the answer
// may have come already, and the progress before it belongs to it.
type exchangeTable struct {
	requests jsonrpc.Table
	buffer   *budget.Budget // of the server; set before use
}

// endAll ends every exchange, now and from now on.
func (t *exchangeTable) endAll(cause error) {
	t.requests.Mu.Lock()
	t.requests.EndLocked(cause)
	open := slices.Collect(maps.Values(t.requests.Open))
	t.requests.Mu.Unlock()
	for _, e := range open {
		e.Owner.(*exchange).end(context.Canceled, cause)
	}
}
