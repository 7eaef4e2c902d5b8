package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
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

// callWithRepeatedRequests starts a call of a server that asks the same every second, until
// the call ends. It returns how long that took.
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
		for range p.Received { // answers of ours, and the cancellation
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

// Only a request that a handler answers stops the clock of a call, and that not
// without end.
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
		"of_an_unknown_method":      {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"server/asks"`, 2 * time.Second},
		"that_are_malformed":        {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"elicitation/create","params":{"mode":"telepathy"}`, 2 * time.Second},
		"with_a_schema_of_no_use":   {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"array"}}`, 2 * time.Second},
		"that_the_handler_declines": {transport.Handlers{ElicitForm: refusing}, elicit, 2 * time.Second},
		"for_roots":                 {transport.Handlers{Roots: transport.NewRoots(nil)}, `"method":"roots/list"`, 2 * time.Second},
		"that_are_answered":         {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, elicit, (jsonrpc.MaxRounds + 2) * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				require.InDelta(t, tc.ends, callWithRepeatedRequests(t, tc.handlers, tc.request), float64(100*time.Millisecond))
			})
		})
	}
}

// The time of the user is not the server's; after it the server has its own.
func TestServerRequests_clock(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
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

// What nobody handles is refused by its method, and what is too long by its size;
// neither is decoded.
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
	require.Zero(t, p.readRefusal().Error.Code, "no call is concerned")
}

// A server gets its id back as it has written it, whatever a decoder would make
// of it.
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
		require.Empty(t, ended, "that was another one's id")
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`)
		transporttest.RequireClosed(t, ended, "the handler is not told")
		p.Send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		require.Equal(t, "2", string(p.Next("").ID), "what is cancelled has no response")
	})
}

// A server may ask before it answers initialize.
func TestServerRequests_in_the_handshake(t *testing.T) {
	answered := make(chan string, 3)
	asks := []string{`"method":"ping"`, `"method":"roots/list"`, `"method":"elicitation/create","params":{"message":"?"}`}
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: replyServer(func(out io.Writer, e jsonrpc.Envelope) string {
		switch {
		case string(e.Method) == `"initialize"`:
			for n, ask := range asks {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"q%d",%s}`+"\n", n, ask)
			}
			return ""
		case e.Method == nil:
			answered <- string(e.ID) + string(e.Error)
			if len(answered) == len(asks) {
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

// A server hears why its question was refused, and may go on.
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

// What the go-sdk takes for granted, and what handlers do.
func TestServerRequests_invalid_params(t *testing.T) {
	p := newPartner(t, false)
	s := p.Open(transport.Handlers{Sample: transporttest.AnySample, SampleTools: true, ElicitForm: transporttest.AcceptAtOnce, ElicitURL: transporttest.AcceptAtOnce})
	for _, question := range []string{
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
		p.Send(`{"jsonrpc":"2.0","id":"q",%s}`, question)
		m := p.Next("")
		require.JSONEq(t, `"q"`, string(m.ID))
		require.NotEmpty(t, m.Error, question)
		require.Contains(t, string(m.Error), `"code":-32`, question)
	}
	p.Send(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
	require.JSONEq(t, `{"role":"assistant","model":"","content":{"type":"text","text":"hi"}}`, string(p.Next("").Result))
	require.Nil(t, s.Cause())
}

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
	transporttest.RequireClosed(t, ended, "the handler is not told")
}

// A call during which the server asks is not idle; but it is bounded.
func TestServerRequests_pause_the_idle_clock(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		fails bool
	}{"within the whole time": {9 * time.Minute, false}, "beyond it": {11 * time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
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
