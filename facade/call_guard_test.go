package facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

type callGuardFunc func(ctx context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error)

func (f callGuardFunc) CheckCall(ctx context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
	return f(ctx, call)
}

// A call that the guard refuses reaches neither the server nor the journal, however it is made.
func TestWithCallGuard_refuses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, row := range []struct {
		name  string
		guard callGuardFunc
		is    error
		text  string
	}{
		{"error", func(context.Context, mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
			return mcpvisor.Permit{}, errors.New("rule 3 denies it")
		}, mcpvisor.ErrDenied, "not permitted; nothing was sent: rule 3 denies it"},
		{"panic", func(context.Context, mcpvisor.GuardedCall) (mcpvisor.Permit, error) { panic("boom") }, mcpvisor.ErrDenied, "panicked: boom"},
		{"the context ends", func(context.Context, mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
			cancel()
			return mcpvisor.Permit{}, nil
		}, mcpvisor.ErrCanceled, "nothing was sent"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := new(turning)
			c := registered(t, s.spec(), facade.WithCallGuard(row.guard), facade.WithJournal(new(memoryJournal), ""))
			for name, call := range map[string]func() error{
				"CallTool":    func() error { _, err := c.CallTool(ctx, "s/x", nil); return err },
				"CallToolRaw": func() error { _, err := c.CallToolRaw(ctx, "s/x", nil); return err },
				"StartTask":   func() error { _, err := c.StartTask(ctx, "s/x", nil); return err },
				"with a key":  func() error { _, err := c.CallTool(ctx, "s/x", nil, facade.WithKey("k")); return err },
			} {
				err := call()
				require.ErrorContains(t, err, row.text, name)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, err, row.is, name)
				require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
				require.False(t, e.Retryable())
			}
			require.Zero(t, s.calls.Load())
			require.Len(t, c.ToolStats("s"), 1, "the tool is listed")
			entries, err := c.JournalEntries(t.Context())
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// The guard sees who calls, and the tool as it is listed.
func TestWithCallGuard_call(t *testing.T) {
	s := new(turning)
	var seen []mcpvisor.GuardedCall
	c := registered(t, s.spec(), facade.WithCallGuard(callGuardFunc(func(_ context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
		call.Arguments = append(json.RawMessage(nil), call.Arguments...)
		seen = append(seen, call)
		return mcpvisor.Permit{}, nil
	})))
	_, err := c.CallTool(t.Context(), "s/x", map[string]any{"a": 1}, relay.WithPrincipal("ci"), relay.WithClientName("editor 2"))
	require.NoError(t, err)
	_, err = c.CallTool(t.Context(), "mcp__s__same", nil)
	require.NoError(t, err)
	require.Len(t, seen, 2)
	tool, _ := c.Tool("s/x")
	require.Equal(t, mcpvisor.GuardedCall{Principal: "ci", Client: "editor 2", Server: "s", Tool: "x", Arguments: json.RawMessage(`{"a":1}`), Definition: tool.Definition}, seen[0])
	require.Equal(t, "same", seen[1].Tool)
	require.Equal(t, `{}`, string(seen[1].Arguments))
	require.Empty(t, seen[1].Principal+seen[1].Client)
	text := textOf(t, c.ErrorForModel("s/x", &mcpvisor.Error{Kind: mcpvisor.ErrDenied, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("rule 3 denies it")}))
	require.Equal(t, "The call of s/x was not permitted: rule 3 denies it", text)
}

// Each round of a call that the caller makes is a call for the guard, which sees its answers.
func TestWithCallGuard_rounds(t *testing.T) {
	var seen []string
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})},
		facade.WithCallGuard(callGuardFunc(func(_ context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
			seen = append(seen, string(call.InputResponses))
			return call.Earlier, nil
		})))
	args := json.RawMessage(`{"method":"elicitation/create","rounds":2,"params":` + wantsText + `}`)
	meta := facade.WithMeta(json.RawMessage(`{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`))
	answers := `{"consult":{"action":"accept","content":{"name":"x","level":1}}}`
	next := relay.Continuation{}
	for range 3 {
		got, err := c.CallToolRaw(t.Context(), "s/consult", args, meta, relay.WithRelay(next))
		require.NoError(t, err)
		required, _ := relay.ReadInputRequired(got)
		next = relay.Continuation{RequestState: bytes.Clone(required.RequestState), InputResponses: json.RawMessage(answers)}
	}
	require.Equal(t, []string{"", answers, answers}, seen)
	_, _ = c.CallToolRaw(t.Context(), "s/consult", args, meta, relay.WithRelay(relay.Continuation{RequestState: json.RawMessage(`"s"`)}))
	require.Equal(t, "{}", seen[3])
}

// The guard is asked again before a call is sent that could not be sent before, and what it says then counts.
func TestWithCallGuard_asked_before_each_attempt(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var sent atomic.Int32
	answer := rawOf(func(method, _ string) string {
		switch method {
		case "initialize":
			return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			return `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			if sent.Add(1) == 1 {
				close(held)
				<-release
			}
			return `{"content":[]}`
		}
		return ""
	})
	var asked atomic.Int32
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{Serve: answer.Serve}, Limits: mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}},
		facade.WithCallGuard(callGuardFunc(func(_ context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
			if asked.Add(1) > 2 {
				require.EqualValues(t, 2, call.Earlier.Digest[0], "what was said before the first attempt")
				return mcpvisor.Permit{}, errors.New("the rules have changed")
			}
			return mcpvisor.Permit{Digest: [32]byte{byte(asked.Load())}}, nil
		})))
	first := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "s/x", nil)
		first <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := c.CallTool(ctx, "s/x", nil, facade.WithWaitReady())
	require.ErrorIs(t, err, mcpvisor.ErrDenied)
	require.ErrorContains(t, err, "the rules have changed")
	close(release)
	require.NoError(t, <-first)
	require.EqualValues(t, 1, sent.Load())
}

// The guard is not asked about a call that cannot be sent.
func TestWithCallGuard_server_down(t *testing.T) {
	s := new(turning)
	c := registered(t, s.spec(), facade.WithCallGuard(callGuardFunc(func(context.Context, mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
		t.Error("it is asked")
		return mcpvisor.Permit{}, nil
	})))
	require.NoError(t, c.Stop(t.Context(), "s"))
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorContains(t, err, "stopped")
}

// A call that waited in the queue of its server is sent only if it is listed and permitted when its turn comes.
func TestWithCallGuard_asked_after_the_wait_in_the_queue(t *testing.T) {
	var strict, evil atomic.Bool
	for _, row := range []struct {
		name   string
		change func(c *facade.Client)
		asked  int32
		is     error
	}{
		{"nothing", func(*facade.Client) {}, 2, nil},
		{"rules", func(*facade.Client) { strict.Store(true) }, 2, mcpvisor.ErrDenied},
		{"lock", func(c *facade.Client) { evil.Store(true); require.NoError(t, c.Refresh(t.Context(), "s")) }, 1, mcpvisor.ErrUnknownTool},
	} {
		t.Run(row.name, func(t *testing.T) {
			strict.Store(false)
			evil.Store(false)
			held, release := make(chan struct{}), make(chan struct{})
			server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
			var sent, asked atomic.Int32
			for _, name := range []string{"x", "slow"} {
				mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
					if sent.Add(1); name == "slow" {
						close(held)
						<-release
					}
					return &mcp.CallToolResult{}, nil, nil
				})
			}
			c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(server), Limits: mcpvisor.Limits{MaxInFlight: 1}},
				facade.WithCatalogGuard(guardFunc(func(server string, offer mcpvisor.Offer) (all []mcpvisor.Finding) {
					if evil.Load() {
						all = append(all, mcpvisor.Finding{List: "tools", Name: "x", Text: "evil"})
					}
					return all
				})),
				facade.WithCallGuard(callGuardFunc(func(_ context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
					if call.Tool == "x" {
						asked.Add(1)
						if strict.Load() {
							return mcpvisor.Permit{}, errors.New("the rules have changed")
						}
					}
					return mcpvisor.Permit{}, nil
				})))
			slow, queued := make(chan error, 1), make(chan error, 1)
			go func() { _, err := c.CallTool(t.Context(), "s/slow", nil); slow <- err }()
			<-held
			go func() { _, err := c.CallTool(t.Context(), "s/x", nil); queued <- err }()
			until(t, func() bool { status, _ := c.ServerStatus("s"); return status.Calls.Queued == 1 })
			row.change(c)
			close(release)
			require.NoError(t, <-slow)
			require.ErrorIs(t, <-queued, row.is)
			require.Equal(t, row.asked, asked.Load())
			if row.is != nil {
				require.EqualValues(t, 1, sent.Load())
			}
		})
	}
}

// What takes a guard long is decided while the call is not in the way of others.
func TestWithCallGuard_asked_again_out_of_the_queue(t *testing.T) {
	held, release, approve := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	var sent, asked atomic.Int32
	for _, name := range []string{"x", "slow", "other"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			if sent.Add(1); name == "slow" {
				close(held)
				<-release
			}
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: facade.ServeInMemory(server), Limits: mcpvisor.Limits{MaxInFlight: 1}},
		facade.WithCallGuard(callGuardFunc(func(ctx context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
			if call.Tool != "x" || asked.Add(1) == 1 || call.Earlier.Digest[0] == 1 {
				return mcpvisor.Permit{}, nil
			}
			select {
			case <-ctx.Done():
				return mcpvisor.Permit{}, context.Cause(ctx)
			case <-approve:
				return mcpvisor.Permit{Digest: [32]byte{1}}, nil
			}
		})))
	slow, queued := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.CallTool(t.Context(), "s/slow", nil); slow <- err }()
	<-held
	go func() { _, err := c.CallTool(t.Context(), "s/x", nil, facade.WithWaitReady()); queued <- err }()
	until(t, func() bool { status, _ := c.ServerStatus("s"); return status.Calls.Queued == 1 })
	close(release)
	require.NoError(t, <-slow)
	until(t, func() bool { return asked.Load() == 3 })
	_, err := c.CallTool(t.Context(), "s/other", nil)
	require.NoError(t, err, "the only place is free")
	close(approve)
	require.NoError(t, <-queued)
	require.EqualValues(t, 3, sent.Load())
}

// What was permitted for a server is not permitted for another one that has taken its name.
func TestWithCallGuard_permit_of_another_server(t *testing.T) {
	old, latest := new(turning), new(turning)
	specOf := func(s *turning, tag string) mcpvisor.ServerSpec {
		spec := s.spec()
		spec.Tools.Deny = []string{tag}
		return spec
	}
	asked := make(chan mcpvisor.GuardedCall)
	answers := make(chan error)
	c := registered(t, specOf(old, "a"), facade.WithCallGuard(callGuardFunc(func(_ context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
		asked <- call
		return mcpvisor.Permit{Digest: [32]byte{1}}, <-answers
	})))
	ended := make(chan error, 1)
	go func() { _, err := c.CallTool(t.Context(), "s/x", nil, facade.WithWaitReady()); ended <- err }()
	<-asked
	require.NoError(t, c.Apply(t.Context(), []mcpvisor.ServerSpec{specOf(latest, "b")}))
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	answers <- nil
	require.Zero(t, (<-asked).Earlier, "it is another call")
	answers <- errors.New("not this one")
	require.ErrorIs(t, <-ended, mcpvisor.ErrDenied)
	require.Zero(t, old.calls.Load()+latest.calls.Load())
}

// What has changed while the journal wrote that a call begins counts: the call is not sent, and its key is free again.
func TestWithCallGuard_asked_after_the_journal(t *testing.T) {
	s, j := new(turning), new(faultyJournal)
	var denies atomic.Bool
	c := registered(t, s.spec(), facade.WithJournal(j, ""), facade.WithCallGuard(callGuardFunc(func(context.Context, mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
		if denies.Load() {
			return mcpvisor.Permit{}, errors.New("rule 3 denies it")
		}
		return mcpvisor.Permit{}, nil
	})))
	j.set(func(_ context.Context, verb string, _ mcpvisor.JournalState) error {
		if verb == "put" {
			denies.Store(true)
		}
		return nil
	})
	_, err := c.CallTool(t.Context(), "s/x", nil, facade.WithKey("k"))
	require.ErrorIs(t, err, mcpvisor.ErrDenied)
	require.Zero(t, s.calls.Load())
	j.set(nil)
	denies.Store(false)
	_, err = c.CallTool(t.Context(), "s/x", nil, facade.WithKey("k"))
	require.NoError(t, err)
	require.EqualValues(t, 1, s.calls.Load())
}
