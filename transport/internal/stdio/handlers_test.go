package stdio

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

func TestWhatIsDeclaredIsWhatIsServed(t *testing.T) {
	for name, tc := range map[string]struct {
		handlers       transport.Handlers
		legacy, modern string
	}{
		"nothing":        {transport.Handlers{}, `{}`, `{}`},
		"sample":         {transport.Handlers{Sample: transporttest.AnySample}, `{"sampling":{}}`, `{"sampling":{}}`},
		"tools":          {transport.Handlers{Sample: transporttest.AnySample, SampleTools: true}, `{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`},
		"no tools alone": {transport.Handlers{SampleTools: true}, `{}`, `{}`},
		"form":           {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{}}}`},
		"url":            {transport.Handlers{ElicitURL: transporttest.AcceptAtOnce}, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		"both":           {transport.Handlers{ElicitForm: transporttest.AcceptAtOnce, ElicitURL: transporttest.AcceptAtOnce}, `{"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`},
		"roots":          {transport.Handlers{Roots: transport.NewRoots(nil)}, `{"roots":{"listChanged":true}}`, `{"roots":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartner(t, false)
			p.Open(tc.handlers)
			require.Equal(t, "server/discover", (<-p.Handshake).Method)
			require.JSONEq(t, tc.legacy, string((<-p.Handshake).Params["capabilities"]))

			p = newPartner(t, true)
			s := p.Open(tc.handlers)
			go func() { _, _ = s.Request(t.Context(), transporttest.ToolCall) }()
			var meta map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(p.Next("tools/call").Params["_meta"], &meta))
			require.JSONEq(t, tc.modern, string(meta[mcp.MetaKeyClientCapabilities]))
		})
	}
}

// What the go-sdk takes for granted, and what handlers do.
func TestBadQuestionsCostThemselves(t *testing.T) {
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

func TestAQuestionThatIsTakenBack(t *testing.T) {
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

// A handler that minds nothing holds up neither the session's end nor the
// next session; but it counts as long as it runs.
func TestHandlersThatAreLeftBehind(t *testing.T) {
	p := newPartner(t, false)
	leave := make(chan struct{})
	causes := make(chan error, inbound.MaxHandlers)
	began := make(chan struct{}, inbound.MaxHandlers)
	d := p.Dialer(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
		began <- struct{}{}
		<-leave
		<-ctx.Done()
		causes <- context.Cause(ctx)
	})}).(*pipedDialer)
	s := d.NewSession()
	require.NoError(t, s.Open(t.Context()))
	for id := range inbound.MaxHandlers {
		p.Send(transporttest.ElicitRequest, id+1)
		<-began
	}
	p.Send(transporttest.ElicitRequest, inbound.MaxHandlers+1) // waits
	killed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
	s.Abort(killed)
	transporttest.RequireClosed(t, s.Released(), "handlers hold up the release")

	next := newPartner(t, false)
	d.spawn = next.Dialer(transport.Handlers{}).(*pipedDialer).spawn
	s = d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	next.Send(transporttest.ElicitRequest, 1)
	require.Eventually(t, func() bool { return d.asked.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
	close(leave)
	for range inbound.MaxHandlers {
		require.ErrorIs(t, <-causes, killed)
	}
	<-began
	transporttest.EndSession(t, s)
	require.Error(t, <-causes)
	require.Eventually(t, func() bool { return d.asked.Running() == 0 }, transporttest.Patience, transporttest.TimeStep)
}

func TestElicitationsThatAreComplete(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			done := make(chan string, 1)
			p := newPartner(t, modern)
			s := p.Open(transport.Handlers{ElicitURL: transporttest.AcceptAtOnce, Elicited: func(_ context.Context, server, id string) { done <- server + " " + id }})
			p.Send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e7"}}`)
			require.Equal(t, "m e7", <-done)
			require.Nil(t, s.Cause())
		})
	}
}

func TestRootsThatChange(t *testing.T) {
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
	modern.Next("tools/call") // and nothing before it
}

// A call during which the server asks is not idle; but it is bounded.
func TestAPersonIsGivenTime(t *testing.T) {
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
