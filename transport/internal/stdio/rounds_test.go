package stdio

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, e, tc.err)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.Equal(t, tc.ends, time.Since(began))
				require.Empty(t, p.Received)
			})
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
		var e *mcpvisor.Error
		require.ErrorAs(t, <-failed, &e)
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
		return nil, &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeNotSent}
	}
	_, err := s.(*session).open.Load().sender.Handler.ContinueWithInput(t.Context(), transporttest.ToolCall, time.Now(), []byte(transporttest.SingleLine(transporttest.FormRequired)), send)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
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
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
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
	var e *mcpvisor.Error
	require.ErrorAs(t, <-failed, &e)
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
