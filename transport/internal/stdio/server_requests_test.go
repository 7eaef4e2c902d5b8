package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// callWithRepeatedRequests calls a tool of a server that sends the same request every
// second until the call ends. It returns how long the call took.
func callWithRepeatedRequests(t *testing.T, h transport.Handlers, request string) time.Duration {
	t.Helper()
	p := newPartner(t, false)
	s := p.Open(h)
	r := transporttest.ToolCall
	r.Timeout, r.TotalTimeout = 2*time.Second, 10*time.Minute
	began := time.Now()
	ended := make(chan error, 1)
	go func() { _, err := s.Request(t.Context(), r); ended <- err }()
	p.Next("tools/call")
	go func() {
		for range p.Received { // discards responses, and the cancellation
		}
	}()
	for n := 0; ; n++ {
		select {
		case err := <-ended:
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			transporttest.EndSession(t, s)
			close(p.Received)
			return time.Since(began)
		case <-time.After(time.Second):
			p.Send(`{"jsonrpc":"2.0","id":%d,%s}`, n, request)
		}
	}
}

// TestServerRequests: only a request that a handler answers restarts the idle clock of a
// call, and only MaxRounds times.
func TestServerRequests(t *testing.T) {
	const elicit = `"method":"elicitation/create","params":{"message":"?"}`
	const sample = `"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":1}`
	refusing := func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return nil, errors.New("no")
	}
	for name, tc := range map[string]struct {
		handlers transport.Handlers
		request  string
		ends     time.Duration
	}{
		"without_a_handler":         {transport.Handlers{}, elicit, 2 * time.Second},
		"without_that_handler":      {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, sample, 2 * time.Second},
		"of_an_unknown_method":      {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"server/unknown"`, 2 * time.Second},
		"that_are_malformed":        {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"elicitation/create","params":{"mode":"telepathy"}`, 2 * time.Second},
		"with_an_unusable_schema":   {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"array"}}`, 2 * time.Second},
		"that_the_handler_declines": {transport.Handlers{ElicitForm: refusing}, elicit, 2 * time.Second},
		"for_roots":                 {transport.Handlers{Roots: transport.NewRoots(nil)}, `"method":"roots/list"`, 2 * time.Second},
		"that_are_answered":         {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, elicit, (jsonrpc.MaxRounds + 2) * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.InDelta(t, tc.ends, callWithRepeatedRequests(t, tc.handlers, tc.request), float64(100*time.Millisecond))
			})
		})
	}
}

// TestServerRequests_clock: the idle clock stands still while a handler runs, and
// continues with the remaining time.
func TestServerRequests_clock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartner(t, false)
		s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(context.Context) { time.Sleep(3 * time.Minute) })})
		r := transporttest.ToolCall
		r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
		began := time.Now()
		ended := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), r); ended <- err }()
		p.Next("tools/call")
		time.Sleep(50 * time.Second)
		p.Send(transporttest.ElicitRequest, 1)
		require.NotEmpty(t, p.Next("").Result)
		require.Equal(t, 230*time.Second, time.Since(began))
		require.ErrorIs(t, <-ended, mcpvisor.ErrTimeout)
		require.InDelta(t, 290*time.Second, time.Since(began), float64(time.Second))
		transporttest.EndSession(t, s)
	})
}

// TestServerRequests_are_refused_unread: a request without a handler, or one that is too
// long, is refused before it is decoded.
func TestServerRequests_are_refused_unread(t *testing.T) {
	p := newPeer(t, osPipe, 64<<20)
	p.serverRequests.Handler = newPipeHandler()
	long := strings.Repeat(`{"role":"user","content":[]},`, 1<<20)
	for request, code := range map[string]int64{
		`"method":"sampling/createMessage","params":{"messages":[` + long + `1]}`: -32601,
		`"method":"elicitation/create","params":{"a":[` + long + `1]}`:            inbound.CodeTooManyRequests,
	} {
		p.writeLine(`{"jsonrpc":"2.0","id":7,%s}`, request)
		r := p.readRefusal()
		require.Equal(t, "7", string(r.ID))
		require.Equal(t, code, r.Error.Code)
		p.writeLine(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
		require.Equal(t, "8", string(p.readRefusal().ID))
	}
}

// TestServerRequests_of_one_call_are_limited: during one call the server may send
// MaxRequestsPerCall requests; pings do not count.
func TestServerRequests_of_one_call_are_limited(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	roots := inbound.NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{Roots: transport.NewRoots(nil)}, Logger: zerolog.Nop()}).NewHandler(jsonrpc.NewLifetime())
	roots.SetSession(nil)
	p.serverRequests.Handler = roots
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	call := p.readMessage()
	for n := range jsonrpc.MaxRequestsPerCall + 1 {
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, n)
		require.Equal(t, n == jsonrpc.MaxRequestsPerCall, p.readRefusal().Error.Code != 0, n)
	}
	p.writeLine(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	require.Zero(t, p.readRefusal().Error.Code, "a ping is free")
	p.writeLine(`{"id":%d,"result":1}`, call.ID)
	require.Equal(t, "1", (<-ended).result)
	p.writeLine(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
	require.Zero(t, p.readRefusal().Error.Code, "a request outside of a call is served")
}

// TestServerRequests_ids: a response has the id exactly as the server has written it.
func TestServerRequests_ids(t *testing.T) {
	ids := []string{"0", "-1", "9007199254740993", "18446744073709551617", "123456789012345678901234567890", "1.50", "1e3", `"a\u0062\/"`, `""`}
	t.Run("over_pipes", func(t *testing.T) {
		p := newPartner(t, false)
		p.Open(transport.Handlers{Roots: transport.NewRoots(nil)})
		for _, id := range ids {
			for _, method := range []string{"ping", "roots/list", "completion/complete"} {
				p.Send(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, method)
				require.Equal(t, id, string(p.Next("").ID), method)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		p := newPartner(t, false)
		began, ended := make(chan struct{}), make(chan struct{})
		p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
			close(began)
			<-ctx.Done()
			close(ended)
		})})
		p.Send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"elicitation/create","params":{"message":"?"}}`)
		<-began
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740992}}`)
		p.Send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		require.Equal(t, "1", string(p.Next("").ID))
		require.Empty(t, ended, "the cancellation named another id")
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
		transporttest.RequireClosed(t, ended, "the context of the handler has not ended")
		p.Send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		require.Equal(t, "2", string(p.Next("").ID), "a cancelled request has no response")
	})
}

// TestServerRequests_in_the_handshake: a server may send requests before it answers
// initialize.
func TestServerRequests_in_the_handshake(t *testing.T) {
	answered := make(chan string, 3)
	requests := []string{`"method":"ping"`, `"method":"roots/list"`, `"method":"elicitation/create","params":{"message":"?"}`}
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: replyServer(func(out io.Writer, e jsonrpc.Envelope) string {
		switch {
		case string(e.Method) == `"initialize"`:
			for n, request := range requests {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"q%d",%s}`+"\n", n, request)
			}
			return ""
		case e.Method == nil:
			answered <- string(e.ID) + string(e.Error)
			if len(answered) == len(requests) {
				return `{"jsonrpc":"2.0","id":1,` + transporttest.LegacyAnswer + `}`
			}
		}
		return ""
	})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: transport.Handlers{Roots: transport.NewRoots(nil), ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	require.ElementsMatch(t, []string{`"q0"`, `"q1"`, `"q2"`}, []string{<-answered, <-answered, <-answered})
}

// TestServerRequests_over_bounds: a request with too many values is refused with the
// reason, and later requests are served.
func TestServerRequests_over_bounds(t *testing.T) {
	p := newPartner(t, false)
	p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	p.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, transporttest.BroadObject(30_000))
	m := p.Next("")
	require.Equal(t, `"q"`, string(m.ID))
	require.Contains(t, string(m.Error), "the parameters hold more than 50000 values")
	p.Send(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
	require.NotEmpty(t, p.Next("").Result)
}

// TestServerRequests_invalid_params: a request with invalid parameters is refused and
// does not end the session. The go-sdk would panic on some of them.
func TestServerRequests_invalid_params(t *testing.T) {
	p := newPartner(t, false)
	s := p.Open(transport.Handlers{Sample: transporttest.AnySample, SampleTools: true, ElicitForm: transporttest.AcceptAtOnce, ElicitURL: transporttest.AcceptAtOnce})
	for _, request := range []string{
		`"method":"elicitation/create"`,
		`"method":"elicitation/create","params":null`,
		`"method":"elicitation/create","params":{"mode":"telepathy"}`,
		`"method":"elicitation/create","params":{"mode":"url"}`,
		`"method":"elicitation/create","params":{"mode":"url","url":"file:///etc/passwd"}`,
		`"method":"elicitation/create","params":{"requestedSchema":[]}`,
		`"method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}}`,
		`"method":"sampling/createMessage"`,
		`"method":"sampling/createMessage","params":{"messages":[null]}`,
		`"method":"sampling/createMessage","params":{"messages":[{"role":"user"}]}`,
		`"method":"sampling/createMessage","params":{"messages":[],"tools":[null]}`,
		`"method":"roots/list"`,
	} {
		p.Send(`{"jsonrpc":"2.0","id":"q",%s}`, request)
		m := p.Next("")
		require.JSONEq(t, `"q"`, string(m.ID))
		require.NotEmpty(t, m.Error, request)
		require.Contains(t, string(m.Error), `"code":-32`, request)
	}
	p.Send(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
	require.JSONEq(t, `{"role":"assistant","model":"","content":{"type":"text","text":"hi"}}`, string(p.Next("").Result))
	require.Nil(t, s.Cause())
}

// TestServerRequests_cancelled_by_the_server: the cancellation ends the context of the
// handler.
func TestServerRequests_cancelled_by_the_server(t *testing.T) {
	p := newPartner(t, false)
	began, ended := make(chan struct{}), make(chan struct{})
	p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		close(ended)
	})})
	p.Send(transporttest.ElicitRequest, 1)
	<-began
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	transporttest.RequireClosed(t, ended, "the context of the handler has not ended")
}

// TestServerRequests_pause_the_idle_clock: a call is not idle while a handler answers a
// request of the server. The total timeout still bounds it.
func TestServerRequests_pause_the_idle_clock(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		fails bool
	}{"within the whole time": {9 * time.Minute, false}, "beyond it": {11 * time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPartner(t, false)
				s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
					select {
					case <-time.After(tc.takes):
					case <-ctx.Done():
					}
				})})
				r := transporttest.ToolCall
				r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
				began := time.Now()
				failed := make(chan error, 1)
				go func() { _, err := s.Request(t.Context(), r); failed <- err }()
				call := p.Next("tools/call")
				p.Send(transporttest.ElicitRequest, 1)
				if tc.fails {
					err := <-failed
					require.ErrorContains(t, err, "timed out")
					require.InDelta(t, 10*time.Minute, time.Since(began), float64(time.Second))
				} else {
					require.NotEmpty(t, p.Next("").Result)
					p.Send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, call.ID)
					require.NoError(t, <-failed)
				}
				transporttest.EndSession(t, s)
			})
		})
	}
}
