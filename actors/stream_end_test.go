package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// A stream that waits for its next attempt ends at once, when it is no longer needed
// and when the session ends. No goroutine is left.
func TestStreamEndsDuringItsPause(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, rt *Runtime, a *notifyingServer){
		"unsubscribe": func(t *testing.T, rt *Runtime, a *notifyingServer) {
			require.Zero(t, spends(func() { require.NoError(t, rt.Subscribe(context.Background(), view(rt), "x:a", false)) }))
			synctest.Wait()
			asked := a.session(1).count("subscriptions/listen")
			time.Sleep(time.Hour)
			require.Equal(t, asked, a.session(1).count("subscriptions/listen"))
		},
		"death": func(_ *testing.T, rt *Runtime, _ *notifyingServer) { _ = rt.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(_ context.Context, _ *notifyingSession, r transport.Request) (string, error) {
				if len(wantsOf(r).ResourceSubscriptions) > 0 {
					return "", &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("HTTP 503")}
				}
				return "", nil
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
				require.Error(t, subscribe(t, rt, "x:a"))
				time.Sleep(10*time.Minute + time.Second) // the pause is 30 s by now
				end(t, rt, a)
			})
		})
	}
}

// A stream for which the server honors no resource is ended.
func TestStreamWithoutHonoredResourcesIsEnded(t *testing.T) {
	a := &notifyingServer{modern: true, handle: func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error) {
		if len(wantsOf(r).ResourceSubscriptions) > 0 {
			return "", s.listen(ctx, r, 0, nil)
		}
		return "", nil
	}}
	withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, rt *Runtime, _ func() []mcpvisor.Event) {
		for range 3 {
			require.ErrorContains(t, subscribe(t, rt, "x:bad"), "does not watch")
		}
		synctest.Wait()
		a.session(1).mu.Lock()
		defer a.session(1).mu.Unlock()
		require.Len(t, a.session(1).streams, 1, "that of the lists")
	})
}

// A server that does not support streams is not asked again for its lists. One that
// rejects them for another reason may only be starting.
func TestStreamUnsupportedIsRequestedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"unknown method": {&mcpvisor.Error{Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}}, 1},
		"another error":  {rpcErr("just starting"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := &notifyingServer{modern: true, handle: func(_ context.Context, s *notifyingSession, r transport.Request) (string, error) {
				if r.Method == "subscriptions/listen" && s.count(r.Method) == 1 {
					return "", c.err
				}
				return "", nil
			}}
			withNotifyingServer(t, a, mcpvisor.ServerSpec{}, func(t *testing.T, _ *Runtime, _ func() []mcpvisor.Event) {
				time.Sleep(time.Hour)
				require.Equal(t, c.asked, a.session(1).count("subscriptions/listen"))
			})
		})
	}
}
