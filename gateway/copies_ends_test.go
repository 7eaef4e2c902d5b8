package gateway

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// lingering is a server with the resource x:y. Those of its incarnations do not end before they may. The
// tool x answers with the number of its incarnation, from 1; the first copy is 2.
func lingering(may <-chan struct{}, those ...int32) mcpvisor.ServerSpec {
	var started atomic.Int32
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		n := started.Add(1)
		if slices.Contains(those, n) {
			defer func() { <-may }()
		}
		return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
			return map[string]string{
				"initialize":               `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"raw","version":"1"}}`,
				"resources/list":           `"result":{"resources":[{"name":"x","uri":"x:y"}]}`,
				"resources/templates/list": `"result":{"resourceTemplates":[]}`,
				"tools/call":               `"result":{"content":[{"type":"text","text":"` + strconv.Itoa(int(n)) + `"}]}`,
			}[m.Method], nil
		}).Serve(ctx, in, out, log)
	}}}
}

// At the bound of copies the copy that replaces another one starts when that has ended: a call waits for it, and a
// subscription has it without a call.
func TestShare_replaced_at_the_bound(t *testing.T) {
	for _, calls := range []bool{false, true} {
		may := make(chan struct{})
		spec := lingering(may, 2)
		c := newClient(t, spec)
		var settings SettingsVar
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}, MaxCopies: 1}))
		s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings)))
		s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		s.notify("notifications/initialized", `{}`)
		if calls {
			require.Equal(t, 2, incarnationOf(t, s.user(false)))
		} else {
			require.NoError(t, s.call("resources/subscribe", `{"uri":"x:y"}`).Error)
		}
		own := s.conn.(*connection).tenant.Load()
		until(t, func() bool { // the copy runs, as incarnation 2: a subscription is acknowledged before that
			copied := own.copies()["a"]
			if copied == nil {
				return false
			}
			status, _ := copied.ServerStatus("a")
			return status.State == supervisor.StateReady
		})
		require.NoError(t, c.Unregister(t.Context(), "a"))
		require.NoError(t, c.Register(t.Context(), spec))
		until(t, func() bool { return len(own.names()) == 0 })
		_, err := own.client("a")
		require.ErrorContains(t, err, "which is the most")
		if calls {
			s.send(77, "tools/call", `{"name":"a__x"}`)
		}
		close(may)
		for calls {
			if answer, ok := s.read().(*jsonrpc.Response); ok {
				require.NoError(t, answer.Error)
				require.Contains(t, string(answer.Result), `"text":"4"`)
				break
			}
		}
		until(t, func() bool { return len(own.names()) == 1 })
	}
}

// A copy that ends because its server was replaced lets its calls in flight end.
func TestShare_replaced_under_a_call(t *testing.T) {
	opened, called := make(chan struct{}), make(chan struct{}, 1)
	spec := mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		if m.Method == "tools/call" {
			called <- struct{}{}
			<-opened
		}
		return map[string]string{
			"initialize": `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
			"tools/call": `"result":{"content":[{"type":"text","text":"done"}]}`,
		}[m.Method], nil
	})}
	c := newClient(t, spec)
	s := openRaw(t, Transport(c, WithNames(Names{}), WithShare(ShareClient)))
	s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	s.notify("notifications/initialized", `{}`)
	s.send(77, "tools/call", `{"name":"a__x"}`)
	receive(t, called)
	own := s.conn.(*connection).tenant.Load()
	spec.Timeouts.Call++
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	until(t, func() bool { return len(own.names()) == 0 })
	close(opened)
	for {
		if answer, ok := s.read().(*jsonrpc.Response); ok {
			require.NoError(t, answer.Error)
			require.Contains(t, string(answer.Result), `"text":"done"`)
			break
		}
	}
}

// A request that finds the server, or at the bound its copy, while it is being replaced waits longer than MaxWait: calls
// in flight may end first.
func TestMaxWait_longer_while_calls_end(t *testing.T) {
	for _, share := range []Share{ShareAll, ShareClient} {
		t.Run(fmt.Sprint(share == ShareClient), func(t *testing.T) {
			opened, called := make(chan struct{}), make(chan struct{}, 2)
			spec := mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
				if m.Method == "tools/call" {
					called <- struct{}{}
					<-opened
				}
				return map[string]string{
					"initialize": `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
					"tools/call": `"result":{"content":[{"type":"text","text":"done"}]}`,
				}[m.Method], nil
			})}
			c := newClient(t, spec)
			var settings SettingsVar
			require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": share}, MaxCopies: 1}))
			s := openRaw(t, Transport(c, WithNames(Names{}), WithSettings(&settings), WithMaxWait(patience)))
			s.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
			s.notify("notifications/initialized", `{}`)
			s.send(77, "tools/call", `{"name":"a__x"}`)
			receive(t, called)
			s.conn.(*connection).opts.maxWait = time.Millisecond // enough for no start
			spec.Timeouts.Call = patience
			applied := make(chan error, 1)
			go func() { applied <- c.Apply(context.Background(), []mcpvisor.ServerSpec{spec}) }()
			until(t, func() bool {
				status, _ := c.ServerStatus("a")
				own := s.conn.(*connection).tenant.Load()
				return status.State == supervisor.StateStopping || own != nil && len(own.names()) == 0
			})
			s.send(78, "tools/call", `{"name":"a__x"}`)
			time.Sleep(50 * time.Millisecond) // much more than MaxWait: without the longer wait the request has failed
			close(opened)
			require.NoError(t, receive(t, applied))
			for answers := 0; answers < 2; {
				if answer, ok := s.read().(*jsonrpc.Response); ok {
					require.NoError(t, answer.Error)
					require.Contains(t, string(answer.Result), `"text":"done"`)
					answers++
				}
			}
		})
	}
}

// A copy that ends with the client is not asked again and again: who asks learns at once that it is closed.
func TestShare_request_while_the_client_closes(t *testing.T) {
	may := make(chan struct{})
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), lingering(may, 1, 2)))
	s := openRaw(t, Transport(c, WithNames(Names{}), WithShare(ShareClient)))
	require.Equal(t, 2, incarnationOf(t, s.user(true)))
	conn := s.conn.(*connection)
	kept, err := conn.clientOf("a")
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() { closed <- c.Close(context.Background()) }()
	until(t, kept.Closed)
	request := func(*facade.Client) error {
		return &mcpvisor.Error{Server: "a", Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeNotSent}
	}
	require.ErrorIs(t, conn.whenUp(t.Context(), "a", request), mcpvisor.ErrClosed)
	_, err = conn.clientOf("a")
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	asked := 0
	find := func() (*facade.Client, error) { asked++; return kept, nil }
	require.ErrorIs(t, conn.gateway.whenUp(t.Context(), find, request), mcpvisor.ErrClosed)
	require.LessOrEqual(t, asked, 2)
	close(may)
	require.NoError(t, receive(t, closed))
}
