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
	"github.com/mcpvisor/mcpvisor/test/testutil"
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
		testutil.RunInBubble(t, name, func(t *testing.T) {
			require.InDelta(t, tc.ends, callWithRepeatedRequests(t, tc.handlers, tc.request), float64(100*time.Millisecond))
		})
	}
}

// TestServerRequests_are_refused_unread: a request without a handler, or one that is too
// long, is refused before it is decoded.
func TestServerRequests_are_refused_unread(t *testing.T) {
	p := newPeer(t, osPipe, 64<<20)
	p.serverRequests.Handler = newPipeHandler()
	long := strings.Repeat(`{"role":"user","content":[]},`, 600_000) // longer than a request may be
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

// TestServerMessages_limits_server_requests: maxServerRequests requests of the server may
// be without a response. Further ones are refused until one is answered.
func TestServerMessages_limits_server_requests(t *testing.T) {
	leave := make(chan struct{})
	p := newPeer(t, osPipe, 1<<20)
	p.serverRequests.Handler = newPipeHandler()
	p.serverRequests.Handler.Pool.Handlers.ElicitForm = transporttest.AcceptAfter(func(context.Context) { <-leave })
	elicit := func(id string) {
		p.writeLine(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"?"}}`, id)
	}
	for n := range maxServerRequests {
		elicit(fmt.Sprint(n))
		elicit("0") // refused from the second time on: the id is in use
	}
	for _, id := range []string{"5000", `"text"`} {
		elicit(id)
		r := p.readRefusal()
		require.JSONEq(t, id, string(r.ID))
		require.EqualValues(t, inbound.CodeTooManyRequests, r.Error.Code)
		require.Equal(t, "too many requests", r.Error.Message)
	}
	elicit(`"` + strings.Repeat("x", inbound.MaxRefusal) + `"`)
	elicit("6000")
	require.Equal(t, "6000", string(p.readRefusal().ID), "the id of the request before is too long to be repeated")
	require.Equal(t, mcpvisor.Discarded{Malformed: maxServerRequests + 1}, p.discarded.Counts())
	close(leave)
	for range maxServerRequests {
		p.readMessage()
	}
	require.Eventually(t, func() bool {
		return p.serverRequests.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
	elicit("7") // admitted: there is room again
	require.EqualValues(t, 7, p.readMessage().ID)
}

// TestServerMessages_drops_refusals_unread_by_the_server: if the server does not read,
// refusals are dropped and not queued without bound.
func TestServerMessages_drops_refusals_unread_by_the_server(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	const requests = 4 * maxServerRequests
	for n := range requests {
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
	}
	const least = requests - maxServerRequests - maxServerRequests - maxBatchBytes/len(`{"jsonrpc":"2.0","id":1,"error":{}}`)
	require.Eventually(t, func() bool { return p.discarded.Counts().Dropped >= uint64(least) }, transporttest.Patience, transporttest.TimeStep)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.LessOrEqual(t, len(p.conn.out.queue), 2*maxServerRequests, "responses, and refusals")
}

// TestNotifications_params_pass: what the protocol allows as parameters passes, and all else counts as malformed.
func TestNotifications_params_pass(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, message := range []string{
		`"notifications/elicitation/complete","params":{"elicitationId":"e"}`,
		`"notifications/of/others"`, `"notifications/of/others","params":null`, `"notifications/of/our/own"`,
	} {
		p.writeLine(`{"jsonrpc":"2.0","method":%s}`, message)
	}
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params": {} }`)
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of nothing"}}`)
	p.writeLine(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.EqualValues(t, 1, p.readMessage().ID)
	require.Zero(t, p.discarded.Counts())
	invalid := []string{`"notifications/elicitation/complete"`, `"notifications/elicitation/complete","params":null`, `"notifications/of/others","params":["x"]`,
		`"notifications/of/others","params":[]`, `"notifications/of/others","params":"x"`, `"notifications/of/others","params":7`}
	for _, message := range invalid {
		p.writeLine(`{"jsonrpc":"2.0","method":%s}`, message)
	}
	p.writeLine(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	require.EqualValues(t, 2, p.readMessage().ID)
	require.Equal(t, mcpvisor.Discarded{Malformed: uint64(len(invalid))}, p.discarded.Counts())
}

// TestNotifications_over_the_rate_limit: log messages over the limit are dropped and
// counted.
func TestNotifications_over_the_rate_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		received := 0
		p.notifications.OnNotice(func(transport.Notice) { received++ })
		for range jsonrpc.NotificationBurst + 5 {
			p.writeLine(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		synctest.Wait()
		require.Equal(t, jsonrpc.NotificationBurst, received)
		require.Equal(t, mcpvisor.Discarded{Dropped: 5}, p.discarded.Counts())
	})
}

// TestRoots_changed: a legacy server is notified of changed roots, a modern one is not.
func TestRoots_changed(t *testing.T) {
	p := newPartner(t, false)
	roots := transport.NewRoots([]*mcp.Root{{URI: "file:///a"}})
	s := p.Open(transport.Handlers{Roots: roots})
	p.Send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[{"uri":"file:///a"}]}`, string(p.Next("").Result))
	roots.Set(nil)
	p.Next("notifications/roots/list_changed")
	p.Send(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[]}`, string(p.Next("").Result))

	transporttest.EndSession(t, s)
	require.Eventually(t, func() bool { return roots.Followers() == 0 }, transporttest.Patience, transporttest.TimeStep)

	modern := newPartner(t, true)
	s = modern.Open(transport.Handlers{Roots: roots})
	roots.Set(nil)
	go func() { _, _ = s.Request(t.Context(), transporttest.ToolCall) }()
	modern.Next("tools/call") // no notification before it
}

// TestRoots_changed_in_the_handshake: a server may have requested the roots during the
// handshake, so a change in the handshake is notified, too.
func TestRoots_changed_in_the_handshake(t *testing.T) {
	roots := transport.NewRoots(nil)
	received := make(chan struct{}, 1)
	d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: replyServer(func(_ io.Writer, e jsonrpc.Envelope) string {
		switch string(e.Method) {
		case `"initialize"`:
			roots.Set(nil)
			return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.LegacyAnswer + `}`
		case `"notifications/roots/list_changed"`:
			received <- struct{}{}
		}
		return `{"jsonrpc":"2.0","id":` + string(e.ID) + `,` + transporttest.UnknownMethod + `}`
	})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Handlers: transport.Handlers{Roots: roots}, Logger: zerolog.Nop()})
	transporttest.OpenSession(t, d)
	select {
	case <-received:
	case <-time.After(transporttest.Patience):
		require.Fail(t, "the server is not notified")
	}
}
