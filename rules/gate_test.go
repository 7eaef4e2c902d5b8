package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/rules"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

func gate(t *testing.T, ask rules.Asker, o rules.Options, all ...rules.Rule) *rules.Gate {
	t.Helper()
	g := rules.NewGate(ask, o)
	s, err := rules.Compile(all, false)
	require.NoError(t, err)
	g.Set(s)
	return g
}

var askAll = rules.Rule{Do: rules.Ask, Source: ".mcp.json:3"}

func approve(context.Context, rules.Question) (rules.Decision, error) {
	return rules.Decision{Approve: true}, nil
}

func call(arguments string) mcpvisor.GuardedCall {
	return mcpvisor.GuardedCall{Principal: "ci", Server: "fs", Tool: "write", Arguments: json.RawMessage(arguments)}
}

// An approval counts for further attempts to send its call until it expires, and for nothing else.
func TestGate_an_approval_is_bound_to_the_call(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, told := 0, 0
		g := gate(t, func(_ context.Context, q rules.Question) (rules.Decision, error) {
			asked++
			q.Arguments[0] = 'x' // a copy
			require.Equal(t, q.InputResponses != nil, strings.HasSuffix(q.Rule, " (a further round)"))
			return rules.Decision{Approve: true}, nil
		}, rules.Options{Valid: time.Minute, Decided: func(q rules.Question, refused error) {
			require.NoError(t, refused)
			require.True(t, json.Valid(q.Arguments))
			told++
		}}, askAll)
		check := func(c mcpvisor.GuardedCall, want int) mcpvisor.Permit {
			t.Helper()
			asked, told = 0, 0
			p, err := g.CheckCall(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, want, asked)
			require.Equal(t, want, told)
			return p
		}
		c := call(`{"a":1}`)
		permit := check(c, 1)
		check(c, 1) // another call with the same bytes
		c.Earlier = permit
		check(c, 0)
		for _, change := range []func(*mcpvisor.GuardedCall){
			func(c *mcpvisor.GuardedCall) { c.Arguments = json.RawMessage(`{"a":2}`) },
			func(c *mcpvisor.GuardedCall) { c.Arguments = json.RawMessage(`{"a": 1}`) },
			func(c *mcpvisor.GuardedCall) { c.InputResponses = json.RawMessage(`{}`) },
			func(c *mcpvisor.GuardedCall) { c.Principal = "ci2" },
			func(c *mcpvisor.GuardedCall) { c.Tool = "write2" },
			func(c *mcpvisor.GuardedCall) { c.Server, c.Tool = "f", "swrite" },
		} {
			other := c
			change(&other)
			check(other, 1)
		}
		time.Sleep(time.Minute - 1)
		check(c, 0)
		time.Sleep(1)
		check(c, 1)
	})
}

// Whatever goes wrong refuses the call.
func TestGate_fails_closed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, ask := range map[string]rules.Asker{
			"there is no one to ask": nil,
			"it was refused; do not repeat it": func(context.Context, rules.Question) (rules.Decision, error) {
				return rules.Decision{}, nil
			},
			"it was refused: not on Fridays": func(context.Context, rules.Question) (rules.Decision, error) {
				return rules.Decision{Reason: "not on\nFridays"}, nil
			},
			"it could not be decided: lost": func(context.Context, rules.Question) (rules.Decision, error) {
				return rules.Decision{Approve: true}, errors.New("lost")
			},
			"panicked: boom": func(context.Context, rules.Question) (rules.Decision, error) { panic("boom") },
			"there was no decision within 5m0s": func(ctx context.Context, _ rules.Question) (rules.Decision, error) {
				time.Sleep(time.Hour)
				return rules.Decision{Approve: true}, nil
			},
		} {
			var told []error
			g := gate(t, ask, rules.Options{Decided: func(_ rules.Question, refused error) { told = append(told, refused) }}, askAll)
			_, err := g.CheckCall(t.Context(), call(`{}`))
			require.ErrorContains(t, err, want)
			if ask != nil {
				require.Equal(t, []error{err}, told)
			}
			require.ErrorContains(t, err, "rule 1 (.mcp.json:3) asks before calls of fs/write are sent")
		}
		g := gate(t, approve, rules.Options{}, askAll)
		_, err := g.CheckCall(t.Context(), call(`{"a":"`+strings.Repeat("a", rules.MaxArgumentBytes)+`"}`))
		require.ErrorContains(t, err, "send less at once")
		time.Sleep(2 * time.Hour) // the late answer
	})
}

// A rule that changes while a person decides counts, and an approval does not hold against it.
func TestGate_rules_that_change_meanwhile(t *testing.T) {
	var g *rules.Gate
	g = gate(t, func(context.Context, rules.Question) (rules.Decision, error) {
		s, err := rules.Compile([]rules.Rule{{Do: rules.Deny}}, false)
		g.Set(s)
		return rules.Decision{Approve: true}, err
	}, rules.Options{}, askAll)
	_, err := g.CheckCall(t.Context(), call(`{}`))
	require.ErrorContains(t, err, "rule 1 denies calls of fs/write")
}

// Open questions are bounded, for each principal and in all. A question ends with its call.
func TestGate_bounds_and_desk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var desk rules.Desk
		g := gate(t, desk.Ask, rules.Options{MaxOpen: 3, MaxOpenOfPrincipal: 2}, askAll)
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan error, 3)
		for _, principal := range []string{"a", "a", "b"} {
			go func() {
				c := call(`{"p":1}`)
				c.Principal = principal
				_, err := g.CheckCall(ctx, c)
				ends <- err
			}()
			synctest.Wait()
		}
		for principal := range map[string]bool{"a": true, "b": true} {
			c := call(`{}`)
			c.Principal = principal
			_, err := g.CheckCall(t.Context(), c)
			require.ErrorContains(t, err, "3 calls wait for a decision already, or 2 of this client")
		}
		open := desk.Open()
		require.Len(t, open, 3)
		require.Equal(t, `{"p":1}`, string(open[0].Arguments))
		q, err := desk.Decide(open[0].ID, rules.Decision{Approve: true})
		require.NoError(t, err)
		require.Equal(t, open[0], q)
		require.NoError(t, <-ends)
		_, err = desk.Decide(open[0].ID, rules.Decision{Approve: true})
		require.ErrorIs(t, err, rules.ErrNoQuestion)
		cancel()
		require.ErrorIs(t, <-ends, context.Canceled)
		require.ErrorIs(t, <-ends, context.Canceled)
		synctest.Wait()
		require.Empty(t, desk.Open())
		_, err = desk.Decide(open[1].ID, rules.Decision{Approve: true})
		require.ErrorIs(t, err, rules.ErrNoQuestion)
		g.Set(nil)
		_, err = g.CheckCall(t.Context(), call(`{}`))
		require.NoError(t, err)
	})
}

// ledger is a server that notes the arguments of each call that reaches it.
type ledger struct {
	mu    sync.Mutex
	calls []string
}

func (l *ledger) client(t *testing.T, guard mcpvisor.CallGuard, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(append(opts, facade.WithCallGuard(guard))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	require.NoError(t, c.Register(t.Context(), l.spec()))
	return c
}

// A hundred calls at once: those that are approved reach the server, byte for byte, and no other.
func TestGate_a_hundred_at_once(t *testing.T) {
	var l ledger
	g := gate(t, func(ctx context.Context, q rules.Question) (rules.Decision, error) {
		var a struct{ N int }
		if err := json.Unmarshal(q.Arguments, &a); err != nil {
			return rules.Decision{}, err
		}
		switch a.N % 5 {
		case 0:
			return rules.Decision{Approve: true}, nil
		case 1:
			return rules.Decision{}, nil
		case 2:
			panic("boom")
		case 3:
			return rules.Decision{Approve: true}, errors.New("lost")
		}
		<-ctx.Done()
		return rules.Decision{Approve: true}, nil
	}, rules.Options{Wait: time.Second, MaxOpenOfPrincipal: 100}, askAll)
	c := l.client(t, g)
	var wg sync.WaitGroup
	var want []string
	for n := range 100 {
		arguments := fmt.Sprintf(`{"n": %d}`, n)
		if n%5 == 0 {
			want = append(want, arguments)
		}
		wg.Go(func() {
			_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(arguments))
			if n%5 == 0 {
				assertNoError(t, err)
				return
			}
			var e *mcpvisor.Error
			if !errors.Is(err, mcpvisor.ErrDenied) || !errors.As(err, &e) || e.Outcome != mcpvisor.OutcomeNotSent || e.Retryable() {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	wg.Wait()
	require.ElementsMatch(t, want, l.calls)
}

func assertNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// spec is a server whose tool x adds a line to the ledger.
func (l *ledger) spec() mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: (&raw.Server{Answer: func(m *raw.Message) string {
		switch {
		case m.ID == nil:
			return ""
		case m.Method == "initialize":
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case m.Method == "tools/list":
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		case m.Method == "tools/call":
			var sent struct {
				Params struct{ Arguments json.RawMessage }
			}
			_ = json.Unmarshal(m.Text, &sent)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = append(l.calls, string(sent.Params.Arguments))
			return `"result":{"content":[]}`
		}
		return `"result":{}`
	}}).Serve}}
}

// What an interceptor makes of the arguments, and what the settings of the tool add, is what is approved.
func TestGate_sees_the_bytes_that_are_sent(t *testing.T) {
	var l ledger
	var seen []string
	g := gate(t, func(_ context.Context, q rules.Question) (rules.Decision, error) {
		seen = append(seen, string(q.Arguments))
		return rules.Decision{Approve: true}, nil
	}, rules.Options{}, askAll)
	c := l.client(t, g, facade.WithInterceptor(func(ctx context.Context, call facade.ToolCall, next facade.CallNext) (facade.CallResult, error) {
		call.Arguments = json.RawMessage(`{"b":2}`)
		return next(ctx, call)
	}))
	_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, []string{`{"b":2}`}, seen)
	spec := l.spec()
	spec.ToolSettings = map[string]mcpvisor.ToolSetting{"x": {Fixed: map[string]json.RawMessage{"force": json.RawMessage("true")}}}
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{spec}))
	_, err = c.CallToolRaw(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.Equal(t, []string{`{"b":2}`, `{"b":2,"force":true}`}, seen)
	require.Equal(t, seen, l.calls)
}

// A server that restarts while a person decides is sent the call without a second approval.
func TestGate_server_that_restarts_meanwhile(t *testing.T) {
	var l ledger
	var c *facade.Client
	asked := 0
	g := gate(t, func(ctx context.Context, _ rules.Question) (rules.Decision, error) {
		asked++
		return rules.Decision{Approve: true}, c.Restart(ctx, "s")
	}, rules.Options{}, askAll)
	c = l.client(t, g)
	_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(`{"a":1}`), facade.WithWaitReady())
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	require.Equal(t, []string{`{"a":1}`}, l.calls)
}
