package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
)

// The headers of Streamable HTTP.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
	eventHeader   = "Last-Event-ID"
)

// LoadSessionKey reads the key of [WithSessionKey] from a file. If there is no file, it creates one
// with a random key, in a directory that must exist. It returns an error if the file cannot be
// read, does not have 32 bytes or, except on Windows, is open to other users (chmod 600).
func LoadSessionKey(path string) ([]byte, error) { return sessionid.LoadKey(path) }

// WithSessionKey sets the key that signs the ids of sessions. A [Handler] with the same key, in
// another process or after a crash of this one, continues the sessions: their ids contain all that
// it needs. The subscriptions and the log level of a session are lost. The key also seals the
// requestState of a call, in a Handler and in a [Transport]. Default: a random key, with which sessions
// end with the handler. It panics if the key has less than 32 bytes.
func WithSessionKey(key []byte) Option {
	if len(key) < sessionid.KeyBytes {
		panic("gateway: the session key is shorter than 32 bytes")
	}
	return func(o *options) { o.key = key }
}

// Server is an MCP server over Streamable HTTP with one endpoint for all versions: 2024-11-05 to
// 2025-11-25 with sessions, and 2026-07-28 without. See [Handler].
type Server struct {
	gateway *gateway
	limits  HTTPLimits // read only
	handler http.Handler
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu         sync.Mutex          // guards the fields below
	profiles   map[string]*gateway // by profile, once a client has used it
	principals map[string]*principal
	sessions   map[nonce]*httpSession // the active ones
	tenants    map[string]*tenant     // clients of 2026-07-28 with copies of servers, by owner
	ended      sessionid.Ended
}

// Handler returns an http.Handler that offers what client supervises as an MCP server:
//
//	http.Handle("/mcp", gateway.Handler(client, gateway.WithSessionKey(key)))
//
// Each request names its version, so clients of all versions use the same URL. An answer is
// JSON, or a stream if a notification or question comes first.
//
// Without tokens it serves this machine only, under its own names, and no page of another web
// site. [WithTokens], [WithTokenVerifier] and [WithOwnAuthentication] open it to other machines; TLS is up to the
// http.Server. The tokens are not passed on to the servers.
//
// The http.Server must have a ReadHeaderTimeout, and no WriteTimeout: streams last. Set
// http.Server.RegisterOnShutdown to Close, or Shutdown waits for the streams. Handler panics if
// client is nil.
func Handler(client *facade.Client, opts ...Option) *Server {
	if client == nil {
		panic("gateway.Handler: the client is nil")
	}
	o := newOptions(opts)
	if o.names == nil {
		o.names = &Names{}
	}
	s := &Server{gateway: newGateway(client, o), limits: o.http, profiles: map[string]*gateway{}, principals: map[string]*principal{}, sessions: map[nonce]*httpSession{}, tenants: map[string]*tenant{}, ended: sessionid.NewEnded(sessionid.MaxEnded)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.handler = http.HandlerFunc(s.serve)
	if o.authenticates() {
		o.settings.tokens.Store(true)
	}
	if o.verify != nil {
		s.handler = requireToken(&o, s.handler)
	}
	return s
}

// Close ends all streams and cancels the requests in flight. Their answers say that they may have been
// executed. The sessions continue in another Handler with the same key. Close does not wait. It may be
// called more than once.
func (s *Server) Close() {
	s.cancel()
	s.gateway.tasks.StopWaiting()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hs := range s.sessions {
		s.dropLocked(hs)
	}
	s.gateway.elicitations.ForgetGateways(func(one any) bool {
		of, ok := one.(*gateway)
		return ok && (of == s.gateway || of == s.profiles[of.opts.profile])
	})
	for owner, t := range s.tenants {
		t.use.stop()
		delete(s.tenants, owner)
		t.end()
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.Admit(w, r) {
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.handler.ServeHTTP(w, r)
}

// Admit answers a request that needs no server: one of a web page or under a name that is not allowed, and the one by
// which a browser asks what a page may send (OPTIONS). For any other one it returns true, and has set the headers that
// let an allowed page read the answer. ServeHTTP does the same. A handler in front that answers requests itself, as
// while servers start, calls Admit before.
func (s *Server) Admit(w http.ResponseWriter, r *http.Request) bool {
	o := &s.gateway.opts
	if status, why := o.refuse(r); status != 0 {
		o.clients.Refuse(clients.RefusedHost)
		http.Error(w, why, status)
		return false
	}
	o.allowPage(w.Header(), r)
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", allowedMethods)
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

const allowedMethods = "GET, POST, DELETE, OPTIONS"

// serve serves a request whose token is valid.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	who, status, why := s.gateway.opts.identityOf(r)
	if status != 0 {
		if status == http.StatusUnauthorized {
			s.gateway.opts.clients.Refuse(clients.RefusedToken)
		}
		http.Error(w, why, status)
		return
	}
	g, status, why := s.gatewayFor(who.Profile, r.PathValue(ProfilePath))
	if status != 0 {
		s.gateway.opts.clients.Refuse(clients.RefusedToken)
		http.Error(w, why, status)
		return
	}
	p := s.enter(who.Principal)
	defer s.leave(p)
	x := &httpExchange{server: s, gateway: g, principal: p, owner: owner.Name(who.Principal, g.opts.profile), expiry: who.Expiry, life: who.life, w: w, r: r, wire: httpwire.New(w, s.limits.wire())}
	switch r.Method {
	case http.MethodPost:
		x.post()
	case http.MethodGet:
		x.stream()
	case http.MethodDelete:
		x.endSession()
	default:
		w.Header().Set("Allow", allowedMethods)
		http.Error(w, "use POST, GET or DELETE", http.StatusMethodNotAllowed)
	}
	x.wire.Flush()
}

// ProfilePath is the wildcard of a pattern of http.ServeMux that names the profile of a request:
//
//	mux.Handle("/mcp", handler)
//	mux.Handle("/mcp/{"+gateway.ProfilePath+"}", handler)
const ProfilePath = "profile"

// gatewayFor returns the gateway of a client whose token names profiles, separated by commas, and whose path names one;
// empty: none. A status other than 0 refuses the client. If the token names profiles, the path picks one of them, and the
// client does not learn which others exist.
func (s *Server) gatewayFor(ofToken, ofPath string) (g *gateway, status int, why string) {
	name, allowed := ofPath, strings.Split(ofToken, ",")
	if ofToken != "" && ofPath == "" {
		name = allowed[0]
	}
	known := s.gateway.opts.settings.load().rules
	switch {
	case ofToken != "" && !slices.Contains(allowed, name):
		return nil, http.StatusForbidden, "this client may use the profiles " + message.Quote(ofToken) + " alone; name one of them in the path, or none"
	case ofToken == "" && ofPath != "" && known[ofPath] == nil:
		return nil, http.StatusNotFound, "there is no profile of that name here"
	case name == "" || name == s.gateway.opts.profile:
		return s.gateway, 0, ""
	case known[name] == nil:
		return nil, http.StatusForbidden, "the gateway does not have the profile of this client, " + message.Quote(name) + `; add it to "profiles" in "gateway" of the configuration, or in Go to gateway.Settings.Profiles, or give the client a token of another profile (mcpvisor token NAME --profile PROFILE, --mcp-oidc-profile-claim)`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g = s.profiles[name]; g == nil {
		o := s.gateway.opts
		o.profile = name
		g = newGatewayOf(s.gateway.client, o, s.gateway.subscriptions, s.gateway.results, s.gateway.tasks, s.gateway.holds)
		s.profiles[name] = g
	}
	return g, 0, ""
}

// Status describes a [Server] at one moment.
type Status struct {
	// Sessions counts the sessions with a request in flight, a stream, a subscription, a log
	// level, a task that is watched or a copy of a server; Streams counts those with a stream.
	Sessions int `json:"sessions"`
	Streams  int `json:"streams"`
	// InFlight counts the requests in flight.
	InFlight int `json:"inFlight"`
	// Clients describes the clients, including those that have nothing open at the moment; see
	// [WithClients].
	Clients clients.Status `json:"clients"`
	// Held counts the held calls: they are in flight at servers while their clients, of 2026-07-28,
	// answer a question.
	Held int `json:"held"`
	// Withheld has the tools and prompts that are not listed, sorted by server.
	Withheld []Withheld `json:"withheld"`
}

// Status returns the status of the server at this moment.
func (s *Server) Status() Status {
	st := Status{Clients: s.gateway.opts.clients.Status(), Withheld: []Withheld{}}
	for _, w := range s.gateway.catalog.Get().Withheld {
		st.Withheld = append(st.Withheld, Withheld{Server: w.Server, Name: w.Name, Kind: w.Kind, Reason: w.Reason})
	}
	st.Held, _ = s.gateway.holds.Count()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Sessions = len(s.sessions)
	for _, hs := range s.sessions {
		if hs.wakeStream != nil {
			st.Streams++
		}
	}
	for _, p := range s.principals {
		st.InFlight += p.inFlight
	}
	return st
}

// Withheld is a tool or prompt that is not listed, and cannot be called.
type Withheld struct {
	// Server and Name are those of the tool or prompt at its server.
	Server string `json:"server"`
	Name   string `json:"name"`
	// Kind is "tool" or "prompt".
	Kind string `json:"kind"`
	// Reason says why, and what to do.
	Reason string `json:"reason"`
}
