package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// guardFunc is a guard that is a function.
type guardFunc func(server string, offer mcpvisor.Offer) []mcpvisor.Finding

func (f guardFunc) Check(server string, offer mcpvisor.Offer) []mcpvisor.Finding {
	return f(server, offer)
}

// refuseEvil withholds everything that has the word evil.
func refuseEvil(_ string, offer mcpvisor.Offer) (found []mcpvisor.Finding) {
	for list, entries := range map[string][]mcpvisor.OfferEntry{"tools": offer.Tools, "prompts": offer.Prompts, "resourceTemplates": offer.Templates} {
		for _, e := range entries {
			if strings.Contains(string(e.Raw), "evil") {
				found = append(found, mcpvisor.Finding{List: list, Name: e.Name, Text: e.Name + " was not approved"})
			}
		}
	}
	if strings.Contains(offer.Instructions, "evil") {
		found = append(found, mcpvisor.Finding{List: "instructions", Text: "the instructions were not approved"})
	}
	return found
}

// turning is a server that can change all that it offers, and counts what it is asked to do.
type turning struct {
	evil  atomic.Bool
	calls atomic.Int32
	mu    sync.Mutex
	end   context.CancelFunc // of the incarnation that began last; guarded by mu
}

func (s *turning) server() *mcpvisor.InMemory {
	answer := rawOf(func(method, _ string) string {
		word := "kind"
		if s.evil.Load() {
			word = "evil"
		}
		switch method {
		case "initialize":
			return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"},"instructions":"be ` + word + `"}`
		case "tools/list":
			return `{"tools":[{"name":"x","description":"` + word + `","inputSchema":{"type":"object"}},{"name":"same","inputSchema":{"type":"object"}}]}`
		case "prompts/list":
			return `{"prompts":[{"name":"p","description":"` + word + `"}]}`
		case "resources/templates/list":
			return `{"resourceTemplates":[{"name":"t","uriTemplate":"a://{x}","description":"` + word + `"}]}`
		case "resources/list":
			return `{"resources":[]}`
		case "tools/call":
			s.calls.Add(1)
			return `{"content":[]}`
		case "prompts/get":
			s.calls.Add(1)
			return `{"messages":[]}`
		case "completion/complete":
			s.calls.Add(1)
			return `{"completion":{"values":["v"]}}`
		}
		return ""
	})
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		context.AfterFunc(ctx, func() { _ = in.Close() })
		s.mu.Lock()
		s.end = cancel
		s.mu.Unlock()
		return answer.Serve(ctx, in, out, log)
	}}
}

func (s *turning) spec() mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", InMemory: s.server(), Policy: supervisor.Retry(10, 10*time.Millisecond)}
}

// view is all that a client tells of its servers.
func view(c *facade.Client) string {
	var texts []string
	for _, v := range []any{c.Tools(), c.Prompts(), c.ResourceTemplates(), c.Status()} {
		text, err := json.Marshal(v)
		texts = append(texts, string(text), fmt.Sprint(err))
	}
	for catalog := range relay.Of(c).Catalogs() {
		texts = append(texts, catalog.Instructions)
	}
	return strings.Join(texts, "\n")
}

// What a server turns into is in no view before the guard has seen it, however the server comes to offer it. Another tool of
// the same server stays, and calls of it continue.
func TestWithCatalogGuard(t *testing.T) {
	ctx := t.Context()
	for _, row := range []struct {
		name string
		turn func(t *testing.T, s *turning, c *facade.Client, spec mcpvisor.ServerSpec)
	}{
		{"restart", func(t *testing.T, _ *turning, c *facade.Client, _ mcpvisor.ServerSpec) {
			require.NoError(t, c.Restart(ctx, "s"))
		}},
		{"crash", func(t *testing.T, s *turning, c *facade.Client, _ mcpvisor.ServerSpec) {
			down := c.Watch(ctx, mcpvisor.EventReady)
			s.mu.Lock()
			s.end()
			s.mu.Unlock()
			<-down
		}},
		{"list", func(t *testing.T, _ *turning, c *facade.Client, _ mcpvisor.ServerSpec) {
			require.NoError(t, c.Refresh(ctx, "s"))
		}},
		{"replacement", func(t *testing.T, _ *turning, c *facade.Client, spec mcpvisor.ServerSpec) {
			spec.Timeouts.Call = 2 * time.Minute
			require.NoError(t, c.Apply(ctx, []mcpvisor.ServerSpec{spec}))
		}},
		{"overlap", func(t *testing.T, _ *turning, c *facade.Client, spec mcpvisor.ServerSpec) {
			spec.Timeouts.Call, spec.Overlap = 2*time.Minute, true
			require.NoError(t, c.Apply(ctx, []mcpvisor.ServerSpec{spec}))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := new(turning)
			spec := s.spec()
			c := registered(t, spec, facade.WithCatalogGuard(guardFunc(refuseEvil)))
			require.Contains(t, view(c), "be kind")
			stop, looked := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(looked)
				for {
					if text := view(c); strings.Contains(text, "evil") {
						t.Errorf("it is told: %s", text)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			s.evil.Store(true)
			row.turn(t, s, c, spec)
			require.NoError(t, c.WaitReady(ctx, "s"))
			until(t, func() bool { return len(c.Tools()) == 1 }) // Apply does not wait for the end of what it replaces
			findings := 4
			if row.name == "list" { // the instructions come with a start alone
				findings = 3
			}
			requireWithheld(t, s, c, findings)
			close(stop)
			<-looked

			s.evil.Store(false) // what is as it was is listed again
			require.NoError(t, c.Restart(ctx, "s"))
			require.NoError(t, c.WaitReady(ctx, "s"))
			require.Len(t, c.Tools(), 2)
			require.Contains(t, view(c), "be kind")
			_, err := c.Complete(ctx, "s", facade.CompletionRequest{Template: "a://{x}", Argument: "x"})
			require.NoError(t, err)
		})
	}
}

// requireWithheld requires that everything evil is withheld, and the rest is not.
func requireWithheld(t *testing.T, s *turning, c *facade.Client, findings int) {
	t.Helper()
	require.Len(t, c.Tools(), 1)
	require.Empty(t, c.Prompts())
	require.Empty(t, c.ResourceTemplates())
	before := s.calls.Load()
	_, err := c.CallTool(t.Context(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnknownTool)
	require.ErrorContains(t, err, "x was not approved")
	_, err = c.GetPrompt(t.Context(), "s/p", nil)
	require.ErrorIs(t, err, mcpvisor.ErrDenied)
	require.ErrorContains(t, err, "p was not approved")
	for _, r := range []facade.CompletionRequest{{Prompt: "p", Argument: "a"}, {Template: "a://{x}", Argument: "x"}} {
		_, err = c.Complete(t.Context(), "s", r)
		require.ErrorIs(t, err, mcpvisor.ErrDenied)
		require.ErrorContains(t, err, "was not approved")
	}
	require.Equal(t, before, s.calls.Load(), "nothing of it was sent")
	_, err = c.CallTool(t.Context(), "s/same", nil)
	require.NoError(t, err)
	status, _ := c.ServerStatus("s")
	require.Len(t, status.Catalog.Warnings, findings)
	require.NotContains(t, view(c), "evil")
}

// The first start, the lists that were kept, and a copy.
func TestWithCatalogGuard_first_lists(t *testing.T) {
	s := new(turning)
	s.evil.Store(true)
	guard := facade.WithCatalogGuard(guardFunc(refuseEvil))
	c := registered(t, s.spec(), guard)
	requireWithheld(t, s, c, 4)
	copied, err := relay.Of(c).CopyServer("s")
	require.NoError(t, err)
	require.NoError(t, copied.WaitReady(t.Context(), "s"))
	requireWithheld(t, s, copied, 4)

	dir, spec := mcpvisor.CatalogDir(t.TempDir()), s.spec()
	spec.Start = mcpvisor.StartLazy
	unguarded, err := facade.New(facade.WithCatalogStore(dir))
	require.NoError(t, err)
	require.NoError(t, unguarded.Register(t.Context(), spec))
	_, err = unguarded.CallTool(t.Context(), "s/x", nil)
	require.NoError(t, err)
	require.NoError(t, unguarded.Close(t.Context()))
	kept := newClient(t, guard, facade.WithCatalogStore(dir))
	require.NoError(t, kept.Register(t.Context(), spec))
	status, _ := kept.ServerStatus("s")
	require.Zero(t, status.Epoch, "it has not been started")
	requireWithheld(t, s, kept, 4)
}

// A standby is looked at like any other start.
func TestWithCatalogGuard_standby(t *testing.T) {
	s := new(turning)
	var checks atomic.Int32
	c := newClient(t, facade.WithCatalogGuard(guardFunc(func(server string, offer mcpvisor.Offer) []mcpvisor.Finding {
		if checks.Add(1) == 1 {
			s.evil.Store(true) // all later incarnations
		}
		return refuseEvil(server, offer)
	})))
	spec := s.spec()
	spec.Standby = true
	ready, standby := c.Watch(t.Context(), mcpvisor.EventReady), c.Watch(t.Context(), mcpvisor.EventStandby)
	first := make(chan context.CancelFunc, 1)
	serve := spec.InMemory.Serve
	spec.InMemory = &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		context.AfterFunc(ctx, func() { _ = in.Close() })
		select {
		case first <- cancel:
		default:
		}
		return serve(ctx, in, out, log)
	}}
	require.NoError(t, c.Register(t.Context(), spec))
	<-ready
	require.Len(t, c.Tools(), 2)
	<-standby
	(<-first)()
	<-ready
	requireWithheld(t, s, c, 4)
}

// A guard that panics withholds everything, and a warning says why. One that only warns withholds nothing.
func TestWithCatalogGuard_panic_and_warnings(t *testing.T) {
	c := registered(t, new(turning).spec(), facade.WithCatalogGuard(guardFunc(func(string, mcpvisor.Offer) []mcpvisor.Finding { panic("broken") })))
	require.Empty(t, c.Tools())
	status, _ := c.ServerStatus("s")
	require.Contains(t, status.Catalog.Warnings[0].Text, "broken")
	require.NotContains(t, view(c), "be kind")

	c = registered(t, new(turning).spec(), facade.WithCatalogGuard(guardFunc(func(string, mcpvisor.Offer) []mcpvisor.Finding {
		return []mcpvisor.Finding{{List: "tools", Text: "look at it", Listed: true}, {List: "instructions", Text: "and at these", Listed: true}}
	})))
	require.Len(t, c.Tools(), 2)
	require.Contains(t, view(c), "be kind")
	status, _ = c.ServerStatus("s")
	require.Equal(t, []mcpvisor.Warning{{List: "tools", Text: "look at it", Guarded: true}, {List: "instructions", Text: "and at these", Guarded: true}}, status.Catalog.Warnings)
}

// begins tells when requests begin.
type begins chan string

func (b begins) RequestStarted(_ context.Context, r monitor.RequestStart) (context.Context, []byte) {
	b <- r.Target
	return nil, nil
}

func (begins) RequestEnded(context.Context, monitor.RequestEnd) {}

// A call that waits for a place is looked at again before it is sent.
func TestWithCatalogGuard_call_that_waits(t *testing.T) {
	s, began := new(turning), make(begins, 10)
	spec := s.spec()
	spec.Limits = mcpvisor.Limits{MaxInFlight: 1, MaxQueued: -1}
	serve := rawServer(func(method, line string) string {
		if method == "tools/call" && strings.Contains(line, `"same"`) {
			return silence
		}
		if s.evil.Load() && method == "tools/list" {
			return `{"tools":[{"name":"x","description":"evil","inputSchema":{"type":"object"}},{"name":"same","inputSchema":{"type":"object"}}]}`
		}
		if method == "tools/list" {
			return `{"tools":[{"name":"x","inputSchema":{"type":"object"}},{"name":"same","inputSchema":{"type":"object"}}]}`
		}
		if method == "tools/call" {
			s.calls.Add(1)
		}
		return ""
	})
	spec.InMemory = serve
	c := registered(t, spec, facade.WithCatalogGuard(guardFunc(refuseEvil)), facade.WithObserver(began))
	busy, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := c.CallTool(busy, "s/same", nil); left <- err }()
	<-began
	until(t, func() bool { return len(c.CallsInFlight()) == 1 })
	waits := make(chan error, 1)
	go func() { _, err := c.CallTool(t.Context(), "s/x", nil, facade.WithWaitReady()); waits <- err }()
	<-began
	s.evil.Store(true)
	require.NoError(t, c.Refresh(t.Context(), "s"))
	leave()
	require.ErrorIs(t, <-left, mcpvisor.ErrCanceled)
	require.ErrorIs(t, <-waits, mcpvisor.ErrUnknownTool)
	require.Zero(t, s.calls.Load())
}

// A guard whose mind has changed is asked about the standby, too, before that takes over.
func TestWithCatalogGuard_refresh_of_a_standby(t *testing.T) {
	s, strict := new(turning), new(atomic.Bool)
	s.evil.Store(true)
	var checked atomic.Int32 // while strict
	c := newClient(t, facade.WithCatalogGuard(guardFunc(func(server string, offer mcpvisor.Offer) []mcpvisor.Finding {
		if !strict.Load() {
			return nil
		}
		checked.Add(1)
		return refuseEvil(server, offer)
	})))
	spec := s.spec()
	spec.Standby = true
	standby := c.Watch(t.Context(), mcpvisor.EventStandby)
	require.NoError(t, c.Register(t.Context(), spec))
	<-standby
	require.Len(t, c.Tools(), 2)
	strict.Store(true)
	require.NoError(t, c.Refresh(t.Context(), "s"))
	require.Len(t, c.Tools(), 1)
	until(t, func() bool { return checked.Load() == 2 })
}
