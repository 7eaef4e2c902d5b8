package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp/syntax"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
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

// TestRounds_other_results: only certain results of modern servers require input.
func TestRounds_other_results(t *testing.T) {
	require.True(t, inbound.NeedsInput("resources/read", []byte(transporttest.FormRequired)))
	require.True(t, inbound.NeedsInput("prompts/get", []byte(transporttest.FormRequired)))
	require.False(t, inbound.NeedsInput("tools/list", []byte(transporttest.FormRequired)))
	require.False(t, inbound.NeedsInput("tools/call", []byte(transporttest.DoneResult)))
	require.False(t, inbound.NeedsInput("tools/call", []byte(`{"resultType":"complete","structuredContent":{"state":"input_required"}}`)))
	require.False(t, inbound.NeedsInput("tools/call", []byte(`{"inputRequests":{"a":{}}}`)))
	require.False(t, inbound.NeedsInput("tools/call", []byte(`{"content":[],"structuredContent":{"resultType":"input_required"}}`)))

	p := newPartner(t, false)
	s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	go func() {
		m := <-p.Received
		p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, transporttest.SingleLine(transporttest.FormRequired))
	}()
	result, err := s.Request(transporttest.Context(t), transporttest.ToolCall)
	require.NoError(t, err)
	require.JSONEq(t, transporttest.FormRequired, string(result))
}

// slowForm is a handler that answers after a delay, or when its context ends.
func slowForm(d time.Duration) transport.Handlers {
	return transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	})}
}

// TestRounds_clocks: the time of a handler does not count as idle. Only the total
// timeout, over all rounds, and the context of the caller bound the call.
func TestRounds_clocks(t *testing.T) {
	for name, tc := range map[string]struct {
		takes, patience, ends time.Duration
		err                   error
	}{
		"one answer":  {9 * time.Minute, 0, 0, nil},
		"two answers": {6 * time.Minute, 0, 10 * time.Minute, mcpvisor.ErrTimeout},
		"the caller":  {6 * time.Minute, 2 * time.Minute, 2 * time.Minute, mcpvisor.ErrCanceled},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			p := newPartner(t, true)
			s := p.Open(slowForm(tc.takes))
			defer transporttest.EndSession(t, s)
			ctx := t.Context()
			if tc.patience > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.patience)
				defer cancel()
			}
			r := transporttest.ToolCall
			r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
			began := time.Now()
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, r); failed <- err }()
			first := p.Next("tools/call")
			p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, first.ID, transporttest.SingleLine(transporttest.FormRequired))
			if tc.patience == 0 {
				second := p.Next("tools/call")
				answer := transporttest.DoneResult
				if tc.err != nil {
					answer = transporttest.SingleLine(transporttest.FormRequired)
				}
				p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, second.ID, answer)
			}
			err := <-failed
			if tc.err == nil {
				require.NoError(t, err)
				return
			}
			e := testutil.AsError[*mcpvisor.Error](t, err)
			require.ErrorIs(t, e, tc.err)
			require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
			require.Equal(t, tc.ends, time.Since(began))
			require.Empty(t, p.Received)
		})
	}
}

// TestRounds_last_round_has_the_remaining_time: the last round has what the earlier
// rounds left of the total timeout.
func TestRounds_last_round_has_the_remaining_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.Open(slowForm(570 * time.Second))
		defer transporttest.EndSession(t, s)
		r := transporttest.ToolCall
		r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
		began := time.Now()
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), r); failed <- err }()
		p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.Next("tools/call").ID, transporttest.SingleLine(transporttest.FormRequired))
		p.Next("tools/call")
		e := testutil.AsError[*mcpvisor.Error](t, <-failed)
		require.ErrorIs(t, e, mcpvisor.ErrTimeout)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.InDelta(t, 10*time.Minute, time.Since(began), float64(time.Second))
	})
}

// TestRounds_unsent_later_round: if a later round was not sent, the outcome is unknown,
// because the server has seen the first round.
func TestRounds_unsent_later_round(t *testing.T) {
	p := newPartner(t, true)
	s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	send := func(context.Context, transport.Request) (json.RawMessage, error) {
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeNotSent}
	}
	_, err := s.(*session).open.Load().sender.Handler.ContinueWithInput(t.Context(), transporttest.ToolCall, time.Now(), []byte(transporttest.SingleLine(transporttest.FormRequired)), send)
	e := testutil.AsError[*mcpvisor.Error](t, err)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.False(t, e.Retryable())
}

// TestRounds_empty: a result that requires no input puts the request off. The request is
// repeated with growing delays, MaxEmptyRounds times.
func TestRounds_empty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.Open(transport.Handlers{})
		defer transporttest.EndSession(t, s)
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); failed <- err }()
		began := time.Now()
		for range inbound.MaxEmptyRounds + 1 {
			m := p.Next("tools/call")
			require.NotContains(t, m.Params, "inputResponses")
			p.Send(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"later"}}`, m.ID)
		}
		err := <-failed
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		e := testutil.AsError[*mcpvisor.Error](t, err)
		require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		require.GreaterOrEqual(t, time.Since(began), 3*500*time.Millisecond)
	})
}

// TestRounds_session_ends_between: a session that ends while a handler runs cancels the
// handler and fails the call. The outcome is unknown, because the server has seen the
// first round.
func TestRounds_session_ends_between(t *testing.T) {
	p := newPartner(t, true)
	ended := make(chan error, 1)
	began := make(chan struct{})
	s := p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAfter(func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	})})
	failed := make(chan error, 1)
	go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); failed <- err }()
	m := p.Next("tools/call")
	p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, transporttest.SingleLine(transporttest.FormRequired))
	<-began
	transporttest.EndSession(t, s)
	e := testutil.AsError[*mcpvisor.Error](t, <-failed)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.ErrorIs(t, <-ended, s.Cause())
}

// TestRounds_empty_rounds_count_from_the_last_input: a round that requires input resets
// the count of empty rounds.
func TestRounds_empty_rounds_count_from_the_last_input(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

// maxFormSteps bounds what validating one form costs, in steps of a regular expression: an
// instruction of its program for each byte of the default. A step takes some 10 ns.
const maxFormSteps = 1 << 24

// TestForm_largest_pattern: validating the largest pattern that is accepted takes a bounded
// number of steps, and the form is answered.
func TestForm_largest_pattern(t *testing.T) {
	form := func(n int) (schema string, steps int) {
		pattern := fmt.Sprintf("(a|a?){%d}$", n)
		expr, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		program, err := syntax.Compile(expr.Simplify())
		require.NoError(t, err)
		return transporttest.FormWith(fmt.Sprintf(`"a":{"type":"string","pattern":"%s","default":"%s"}`, pattern, strings.Repeat("a", inbound.MaxFormDefault))),
			len(program.Inst) * inbound.MaxFormDefault
	}
	refused := sort.Search(1000, func(n int) bool { // repetitions beyond 1000 are no valid pattern
		schema, _ := form(n)
		return inbound.CheckForm(transporttest.DecodeJSON(t, schema)) != nil
	})
	require.Less(t, refused, 1000, "no pattern is too large")
	heavy, steps := form(refused - 1)
	require.LessOrEqual(t, steps, maxFormSteps)
	// What a pattern costs is counted on its parse tree, before it is compiled, so the
	// count is above what the program has.
	require.Greater(t, steps, maxFormSteps/3, "the largest pattern is far below the bound")

	p := newPartner(t, false)
	p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	p.Send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, heavy)
	require.JSONEq(t, "1", string(p.Next("").ID))
}
