package stdio

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A server that wants something in between has not put the request off all the
// while.
func TestPuttingOffBeginsAnew(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
		defer transporttest.EndSession(t, s)
		later := `{"resultType":"input_required","requestState":"later"}`
		answered := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); answered <- err }()
		for _, result := range []string{later, later, later, transporttest.SingleLine(transporttest.FormRequired), later, later, transporttest.DoneResult} {
			p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.Next("tools/call").ID, result)
		}
		require.NoError(t, <-answered)
	})
}

// TestRootsThatChangeInTheHandshake: what the server may have asked for by then is
// old.
func TestRootsThatChangeInTheHandshake(t *testing.T) {
	roots := transport.NewRoots(nil)
	told := make(chan struct{}, 1)
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: answering(func(_ io.Writer, e jsonrpc.Envelope) string {
		switch string(e.Method) {
		case `"initialize"`:
			roots.Set(nil)
			return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.LegacyAnswer + `}`
		case `"notifications/roots/list_changed"`:
			told <- struct{}{}
		}
		return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.UnknownMethod + `}`
	})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: transport.Handlers{Roots: roots}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	select {
	case <-told:
	case <-time.After(transporttest.Patience):
		require.Fail(t, "it is not told")
	}
}

// TestMemoryServerThatStaysIsLeftBehind: it minds neither its stdin nor its
// context, and holds up nobody.
func TestMemoryServerThatStaysIsLeftBehind(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		leave := make(chan struct{})
		defer close(leave)
		legacy := transporttest.LegacyServer(nil)
		d, _ := lives(t, mcpvisor.EraLegacy, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			err := legacy(ctx, stdin, stdout, stderr)
			<-leave
			return err
		})
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		began := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
		<-s.Released()
		require.LessOrEqual(t, time.Since(began), mcpvisor.DefaultShutdownTimeout)
	})
}
