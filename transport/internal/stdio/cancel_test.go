package stdio

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestWireCallersCauseIsNotOurs(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := p.ask(ctx, transport.Request{Method: "tools/call"})
			id := p.read().ID
			cancel(cause)
			transporttest.RequireCanceled(t, (<-failed).err, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			notice := p.read()
			require.Equal(t, "notifications/cancelled", notice.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":"canceled"}`, id), string(notice.Params))
		})
	}
}
