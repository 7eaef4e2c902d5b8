package streamable

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// exchangeTable holds the exchanges of one session: calls, messages of the go-sdk's
// client, and event streams. An exchange that has ended stays in the table until it is
// finished, because its answer may have arrived already, and the progress reported before
// that answer must still reach its caller. Safe for concurrent use.
type exchangeTable struct {
	requests jsonrpc.Table
	buffer   *budget.Budget // the dialer's; set before the first exchange
}

// endAll ends every exchange. An exchange that begins later ends at once.
func (t *exchangeTable) endAll(cause error) {
	t.requests.End(cause, func(e *jsonrpc.Entry) { e.Owner.(*exchange).end(context.Canceled, cause) })
}
