package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// notifyingServer is a server that announces its changes. Its sessions answer as handle
// says; where that returns nothing, they answer as a good server would.
type notifyingServer struct {
	modern bool
	silent bool // it does not announce changes of its tools
	handle func(ctx context.Context, s *notifyingSession, r transport.Request) (string, error)

	mu       sync.Mutex
	sessions []*notifyingSession
	tools    string // the answer to tools/list; empty: one tool
}

// NewSession implements transport.Dialer.
func (a *notifyingServer) NewSession() transport.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &notifyingSession{of: a, epoch: len(a.sessions) + 1, dead: make(chan struct{}), requestCounts: map[string]int{}, streams: map[int64]streamFilter{}}
	a.sessions = append(a.sessions, s)
	return s
}

// session is the session of an epoch.
func (a *notifyingServer) session(n int) *notifyingSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[n-1]
}

// offers sets the tools of the next listings.
func (a *notifyingServer) offers(names ...string) {
	tools := make([]string, 0, len(names))
	for _, name := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tools = `{"tools":[` + strings.Join(tools, ",") + `]}`
}

func (a *notifyingServer) toolList() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tools == "" {
		return `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
	}
	return a.tools
}

type notifyingSession struct {
	transport.Base
	calls  endCalls
	of     *notifyingServer
	epoch  int
	notify func(transport.Notice)
	dead   chan struct{}

	mu            sync.Mutex
	cause         *supervisor.Cause
	requestCounts map[string]int
	requests      []string
	id            int64
	streams       map[int64]streamFilter // that are open and acknowledged
}

func (s *notifyingSession) Open(context.Context) error             { return nil }
func (s *notifyingSession) OnNotice(notify func(transport.Notice)) { s.notify = notify }
func (s *notifyingSession) Dead() <-chan struct{}                  { return s.dead }
func (s *notifyingSession) Released() <-chan struct{}              { return s.dead }
func (s *notifyingSession) OnDead(f func())                        { s.calls.onDead(s.dead, f) }
func (s *notifyingSession) OnReleased(f func())                    { s.calls.onReleased(s.dead, f) }
func (s *notifyingSession) Left() error                            { return nil }
func (s *notifyingSession) Kill(cause *supervisor.Cause)           { s.Abort(cause) }
func (s *notifyingSession) LastReceived() time.Time                { return time.Now() }

func (s *notifyingSession) Cause() *supervisor.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *notifyingSession) Abort(c *supervisor.Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = c
		close(s.dead)
	}
}

func (s *notifyingSession) Info() mcpvisor.SessionInfo {
	i := mcpvisor.SessionInfo{Era: mcpvisor.EraLegacy, ProtocolVersion: "2025-11-25", Capabilities: &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{ListChanged: !s.of.silent}, Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}}}
	if s.of.modern {
		i.Era, i.ProtocolVersion = mcpvisor.EraModern, "2026-07-28"
	}
	return i
}

// count is how often a method was requested.
func (s *notifyingSession) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requestCounts[method]
}

// requestLog is every request with its parameters.
func (s *notifyingSession) requestLog() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

func (s *notifyingSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	s.mu.Lock()
	s.requestCounts[r.Method]++
	s.requests = append(s.requests, r.Method+" "+string(r.Params))
	s.mu.Unlock()
	if s.of.handle != nil {
		text, err := s.of.handle(ctx, s, r)
		if err != nil || text != "" {
			return json.RawMessage(text), err
		}
	}
	switch r.Method {
	case "tools/list":
		return json.RawMessage(s.of.toolList()), nil
	case "resources/list":
		return json.RawMessage(`{"resources":[]}`), nil
	case "resources/templates/list":
		return json.RawMessage(`{"resourceTemplates":[]}`), nil
	case "subscriptions/listen":
		return nil, s.listen(ctx, r, 0, wantsOf(r).ResourceSubscriptions)
	}
	return json.RawMessage(`{}`), nil
}

// streamFilter is what a request subscriptions/listen is about.
type streamFilter struct {
	ToolsListChanged      bool
	ResourceSubscriptions []string
}

func wantsOf(r transport.Request) streamFilter {
	var p struct{ Notifications streamFilter }
	_ = json.Unmarshal(r.Params, &p)
	return p.Notifications
}

// listen acknowledges after a while and stays open until ctx or the session ends.
func (s *notifyingSession) listen(ctx context.Context, r transport.Request, ackAfter time.Duration, honored []string) error {
	s.mu.Lock()
	s.id++
	id, wants := s.id, wantsOf(r)
	s.mu.Unlock()
	r.Stream.Sent(id)
	wants.ResourceSubscriptions = honored
	if s.pause(ctx, ackAfter) {
		s.mu.Lock()
		s.streams[id] = wants
		s.mu.Unlock()
		s.notify(transport.Notice{Kind: transport.Acknowledged, Honored: honored, Stream: id})
		s.pause(ctx, -1)
		s.mu.Lock()
		delete(s.streams, id)
		s.mu.Unlock()
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("ended")}
}

// pause waits for d, or without end if d is negative. It returns false if ctx or the
// session ended first.
func (s *notifyingSession) pause(ctx context.Context, d time.Duration) bool {
	var due <-chan time.Time
	if d >= 0 {
		due = time.After(d)
	}
	select {
	case <-due:
		return true
	case <-ctx.Done():
	case <-s.dead:
	}
	return false
}

// update notifies each stream about a resource that it changed.
func (s *notifyingSession) update(uri string) {
	s.announce(func(w streamFilter) bool { return slices.Contains(w.ResourceSubscriptions, uri) },
		transport.Notice{Kind: transport.ResourceUpdated, URI: uri})
}

func (s *notifyingSession) toolsChanged() {
	n := transport.Notice{Kind: transport.ListChanged, Lists: catalog.ListTools}
	if !s.of.modern {
		s.notify(n)
		return
	}
	s.announce(func(w streamFilter) bool { return w.ToolsListChanged }, n)
}

func (s *notifyingSession) announce(about func(streamFilter) bool, n transport.Notice) {
	s.mu.Lock()
	listeners := 0
	for _, w := range s.streams {
		if about(w) {
			listeners++
		}
	}
	s.mu.Unlock()
	for range listeners {
		s.notify(n)
	}
}

func rpcErr(text string) error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New(text)}
}

// withNotifyingServer registers the server and runs f in virtual time. got is what was
// published so far.
func withNotifyingServer(t *testing.T, a *notifyingServer, spec mcpvisor.ServerSpec, f func(t *testing.T, rt *Runtime, got func() []mcpvisor.Event)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt := newNotifyingRuntime(a)
		h := &harness{t: t, rt: rt}
		got := h.events()
		defer func() {
			_ = rt.Close(context.Background())
			time.Sleep(2 * time.Second)
		}()
		spec.Name = "s"
		if spec.Policy == (supervisor.Policy{}) {
			spec.Policy = supervisor.Retry(100, time.Millisecond)
		}
		require.NoError(t, rt.Register(context.Background(), spec))
		synctest.Wait()
		f(t, rt, got)
	})
}

func newNotifyingRuntime(a *notifyingServer) *Runtime {
	return New(Options{NewDialer: func(mcpvisor.ServerSpec) (transport.Dialer, error) { return a, nil }, Logger: zerolog.Nop()})
}

func view(rt *Runtime) *View { return rt.Snapshot().Server("s") }

func subscribe(t *testing.T, rt *Runtime, uri string) error {
	t.Helper()
	return rt.Subscribe(context.Background(), view(rt), uri, true)
}

func updates(events []mcpvisor.Event, uri string) (n int) {
	for _, e := range events {
		if e.Kind == mcpvisor.EventResourceUpdated && e.URI == uri {
			n++
		}
	}
	return n
}

func offered(rt *Runtime, tool string) bool {
	_, found := view(rt).Catalog.Tool(tool)
	return found
}
