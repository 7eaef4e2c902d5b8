package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/bridge"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// UpgradeMCP is the protocol that GET /run/mcp switches to: messages of MCP, one a line, as
// over stdio.
const UpgradeMCP = "mcp"

// UntilUnusedHeader is in the answer of a run that ends when it is unused.
const UntilUnusedHeader = "Mcpvisor-Until-Unused"

// ProfileParameter names the profile of a session in the query of GET /run/mcp.
const ProfileParameter = "profile"

// startsTimeout bounds [AwaitStarts].
const startsTimeout = 20 * time.Second

// sessions are the MCP sessions of one client over the socket. Safe for concurrent use.
type sessions struct {
	client   *facade.Client
	of       *Served
	ctx      context.Context // ends with close
	cancel   context.CancelFunc
	draining context.Context // ends when another run takes over
	drain    context.CancelFunc

	mu         sync.Mutex               // guards the fields below
	transports map[string]mcp.Transport // by profile
	open       int
	closed     bool
	changed    func(open int) // called with mu; nil without FollowSessions
	end        func()         // the same
	wg         sync.WaitGroup
}

// Declared is what a client of servers declares, whose calls come from MCP sessions: the host that makes a
// call may answer all of it.
var Declared = facade.WithDeclared(facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true})

// Extensions are declared to servers, because hosts may show user interfaces: their resources pass the gateway.
var Extensions = facade.WithExtensions(map[string]json.RawMessage{facade.UIExtension: json.RawMessage(facade.UISettings)})

func newSessions(c *facade.Client, of *Served) *sessions {
	s := &sessions{client: c, of: of, transports: map[string]mcp.Transport{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.draining, s.drain = context.WithCancel(context.Background())
	return s
}

// transport returns the one of a profile; empty: everything is offered. It reports false if there is no
// such profile.
func (s *sessions) transport(profile string) (mcp.Transport, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.transports[profile]
	if profile != "" && !s.of.Settings.Has(profile) {
		return nil, false
	}
	if t == nil {
		opts := []gateway.Option{gateway.WithNames(gateway.Names{HostPrefix: settings.DefaultHostPrefix}), gateway.WithSettings(s.of.Settings), gateway.WithProfile(profile), gateway.WithClients(s.of.Hosts),
			gateway.WithLimits(gateway.Limits{StallTimeout: stallTimeout})}
		if s.of.Key != nil {
			opts = append(opts, gateway.WithSessionKey(s.of.Key))
		}
		t = gateway.Transport(s.client, opts...)
		s.transports[profile] = t
	}
	return t, true
}

// stallTimeout is longer than the default: between this session and its host is `mcpvisor stdio`, which takes nothing
// further while the host reads one large message.
const stallTimeout = 2 * time.Minute

// FollowSessions calls changed with the number of MCP sessions that are open: now, and whenever
// it changes. changed must not wait. end is called when another run takes over, and nothing is in flight.
func (h *Handler) FollowSessions(changed func(open int), end func()) {
	s := h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed, s.end = changed, end
	changed(s.open)
}

// add counts a session, or the end of one. It reports false if the handler is closed.
func (s *sessions) add(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n < 0:
		s.wg.Done()
	case s.closed, s.draining.Err() != nil:
		return false
	default:
		s.wg.Add(1)
	}
	s.open += n
	if s.changed != nil {
		s.changed(s.open)
	}
	return true
}

// close ends all sessions and waits for them.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// getMCP switches the connection to MCP and serves one session on it.
func (h *Handler) getMCP(w http.ResponseWriter, r *http.Request) {
	s := h.sessions
	if r.Header.Get("Upgrade") != UpgradeMCP {
		w.Header().Set("Upgrade", UpgradeMCP)
		http.Error(w, "ask for an upgrade to "+UpgradeMCP, http.StatusUpgradeRequired)
		return
	}
	profile := r.URL.Query().Get(ProfileParameter)
	transport, ok := s.transport(profile)
	if !ok {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	if !s.add(1) {
		http.Error(w, "the servers are being stopped", http.StatusServiceUnavailable)
		return
	}
	defer s.add(-1)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be switched", http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Time{}); err != nil { // of the request
		return
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + UpgradeMCP + "\r\n"
	if h.present().UntilUnused {
		head += UntilUnusedHeader + ": true\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return
	}
	writer := &drainWriter{Conn: conn, draining: s.draining}
	starts, started := context.WithCancel(s.ctx)
	defer started()
	defer context.AfterFunc(s.draining, func() {
		started()
		_, _ = writer.Write(nil)
	})()
	AwaitStarts(starts, s.client, h.present().Servers)
	_ = gateway.Serve(s.ctx, transport, &mcp.IOTransport{Reader: streamReader{buffered, conn}, Writer: writer}) // its error is that of the peer
}

// AwaitStarts waits until each of these servers has been started once, and is ready or has failed,
// for 20 s at most. So a host that comes back to a run that has just begun sees the same lists as before, and
// can call what it knows.
func AwaitStarts(ctx context.Context, client *facade.Client, names []string) {
	ctx, cancel := context.WithTimeout(ctx, startsTimeout)
	defer cancel()
	isStarting := func() bool {
		all := client.Status()
		return slices.ContainsFunc(names, func(name string) bool {
			s := statusOf(name, all)
			return s == nil || s.Epoch <= 1 && s.State != supervisor.StateClosing && IsOnItsWay(s, all)
		})
	}
	changes := client.Watch(ctx)
	for isStarting() {
		if _, ok := <-changes; !ok {
			return
		}
	}
}

func statusOf(name string, all []mcpvisor.ServerStatus) *mcpvisor.ServerStatus {
	if i := slices.IndexFunc(all, func(s mcpvisor.ServerStatus) bool { return s.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// IsOnItsWay reports whether a start of a server has neither succeeded nor failed. One that waits is on its way if
// all that it waits for runs, or is on its way. all are the servers of its client.
func IsOnItsWay(s *mcpvisor.ServerStatus, all []mcpvisor.ServerStatus) bool {
	switch s.State {
	case supervisor.StateConnecting, supervisor.StateDiscovering, supervisor.StateClosing:
		return true
	case supervisor.StateWaiting:
		return !slices.ContainsFunc(s.WaitsFor, func(name string) bool {
			other := statusOf(name, all)
			return other == nil || other.State != supervisor.StateReady && !IsAtRest(other.State) && !IsOnItsWay(other, all)
		})
	default:
	}
	return false
}

// IsAtRest reports whether a server does not run because nothing wants it. It is listed, and a call wakes it.
func IsAtRest(s supervisor.State) bool {
	return s == supervisor.StateAsleep || s == supervisor.StateResting
}

// streamReader reads what is buffered of a connection, and then the connection.
type streamReader struct {
	io.Reader
	conn net.Conn
}

func (r streamReader) Close() error { return r.conn.Close() }

const (
	// DrainTimeout bounds how long calls in flight may take before their servers are ended.
	DrainTimeout = 30 * time.Second
	// drainPoll is the pause between two looks at them.
	drainPoll = 20 * time.Millisecond
)

// handOver makes a run that ends when it is unused end for another one. It refuses new sessions, and hosts leave the
// open ones as soon as their requests are answered. What is in flight after DrainTimeout is cut off.
func (h *Handler) handOver(context.Context, struct{}) (any, error) {
	s := h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	end, again := s.end, s.closed || s.draining.Err() != nil
	if end != nil && !again {
		s.drain()
		s.wg.Go(func() {
			for until := time.Now().Add(DrainTimeout); time.Now().Before(until) && s.inFlight() && backoff.Sleep(s.ctx, drainPoll) == nil; {
			}
			end()
		})
	}
	if end == nil {
		return nil, &mcpvisor.Error{Op: "hand over", Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("this run does not end for another one")}
	}
	return struct{}{}, nil
}

// inFlight reports whether a session is open, or a call is in flight.
func (s *sessions) inFlight() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open > 0 || len(s.client.CallsInFlight()) > 0
}

// drainWriter writes the messages of a session, in any number of pieces, and between two of them that it drains.
type drainWriter struct {
	net.Conn
	draining context.Context

	mu     sync.Mutex // locked while bytes are written; guards the fields below
	within bool       // the last byte does not end a message
	told   bool
}

// Write implements io.Writer. Without bytes it writes only the notice, if it is time.
func (w *drainWriter) Write(b []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b) > 0 {
		n, err = w.Conn.Write(b)
		w.within = b[len(b)-1] != '\n'
	}
	if w.draining.Err() != nil && !w.within && !w.told {
		w.told = true
		_, _ = io.WriteString(w.Conn, `{"jsonrpc":"2.0","method":"`+bridge.DrainMethod+`"}`+"\n") // an error ends the session
	}
	return n, err
}
