package stdio

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestCancel_keeps_the_cause_of_the_caller: a call whose context ends is canceled, never
// timed out, even if the cause of the context is a timeout of another call.
func TestCancel_keeps_the_cause_of_the_caller(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := p.startRequest(ctx, transport.Request{Method: "tools/call"})
			id := p.readMessage().ID
			cancel(cause)
			transporttest.RequireCanceled(t, (<-failed).err, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			notice := p.readMessage()
			require.Equal(t, "notifications/cancelled", notice.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":"canceled"}`, id), string(notice.Params))
		})
	}
}

// TestCancel_notifies_the_server: when the server has seen a canceled request, it is
// notified, and the outcome of the call is unknown.
func TestCancel_notifies_the_server(t *testing.T) {
	for reason, stop := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": context.WithCancel,
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := stop(t.Context())
			defer cancel()
			ended := p.startRequest(ctx, transport.Request{Method: "m"})
			id := p.readMessage().ID
			if reason == "canceled" {
				cancel()
			}
			got := <-ended
			require.Equal(t, mcpvisor.KindCanceled, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
			require.ErrorIs(t, got.err, ctx.Err())
			m := p.readMessage()
			require.Equal(t, "notifications/cancelled", m.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":%q}`, id, reason), string(m.Params))
		})
	}
	p := newPeer(t, osPipe, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := <-p.startRequest(ctx, transport.Request{Method: "m"}) // its context has ended already
	require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
	require.True(t, p.postLine(&outgoing{text: []byte(`{"method":"last"}` + "\n")}))
	require.Equal(t, "last", p.readMessage().Method)
}
