package stdio

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestCapabilities_match_handlers: the client declares exactly the capabilities that its
// handlers serve.
func TestCapabilities_match_handlers(t *testing.T) {
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
			declared := map[string]json.RawMessage{}
			require.NoError(t, json.Unmarshal(meta[mcp.MetaKeyClientCapabilities], &declared))
			require.JSONEq(t, `{"io.modelcontextprotocol/tasks":{}}`, string(declared["extensions"]), "needs no handler")
			delete(declared, "extensions")
			rest, err := json.Marshal(declared)
			require.NoError(t, err)
			require.JSONEq(t, tc.modern, string(rest))
		})
	}
}

// TestHandlers_left_behind_by_a_session: a handler that ignores its context delays
// neither the release of its session nor the next session. It counts against MaxHandlers
// until it returns.
func TestHandlers_left_behind_by_a_session(t *testing.T) {
	p := newPartner(t, false)
	leave := make(chan struct{})
	causes := make(chan error, inbound.MaxHandlers)
	began := make(chan struct{}, inbound.MaxHandlers)
	d := p.Dialer(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
		began <- struct{}{}
		<-leave
		<-ctx.Done()
		causes <- context.Cause(ctx)
	})}).(*dialer)
	s := d.NewSession()
	require.NoError(t, s.Open(t.Context()))
	for id := range inbound.MaxHandlers {
		p.Send(transporttest.ElicitRequest, id+1)
		<-began
	}
	p.Send(transporttest.ElicitRequest, inbound.MaxHandlers+1) // waits for a free slot
	killed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
	s.Abort(killed)
	transporttest.RequireClosed(t, s.Released(), "handlers hold up the release")

	next := newPartner(t, false)
	d.spawn = next.Dialer(transport.Handlers{}).(*dialer).spawn
	s = d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	next.Send(transporttest.ElicitRequest, 1)
	require.Eventually(t, func() bool { return d.handlers.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
	close(leave)
	for range inbound.MaxHandlers {
		require.ErrorIs(t, <-causes, killed)
	}
	<-began
	transporttest.EndSession(t, s)
	require.Error(t, <-causes)
	require.Eventually(t, func() bool { return d.handlers.Running() == 0 }, transporttest.Patience, transporttest.TimeStep)
}

// TestElicitationComplete: the notification that an elicitation is complete reaches the
// host in both eras.
func TestElicitationComplete(t *testing.T) {
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
