package streamable

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// exchangeTable holds the exchanges of one session: calls, messages of the go-sdk's
// client, and event streams. An exchange that has ended stays in it until it is
// finished: its answer may have come already, and the progress before that answer
// belongs to it.
type exchangeTable struct {
	requests jsonrpc.Table
	buffer   *budget.Budget // of the server; set before the first exchange
}

// endAll ends every exchange, and every later one as soon as it begins.
func (t *exchangeTable) endAll(cause error) {
	t.requests.End(cause, func(e *jsonrpc.Entry) { e.Owner.(*exchange).end(context.Canceled, cause) })
}
