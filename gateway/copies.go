package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server with ShareClient runs once for each tenant. The client that is served has its lists, and a
// copy (facade.Client.CopyServer) has its calls:
//
//	connection.clientOf → tenant.client → seat.copy      calls, reads, prompts, completions, tasks
//	tenant.follow       → notifiers of the tenant        what the copy reports
//	tenant.review       ← events of the client, settings ends copies that are out of date

// tenant is a client of the gateway, as far as servers run for it alone: a session, a connection or,
// over HTTP since 2026-07-28, a principal.
type tenant struct {
	gateway   *gateway
	key       string                 // names it in ids of tasks; principalTenant for a principal, which they name anyway
	principal string                 // whose copies they are
	options   func() []facade.Option // of a copy
	level     func() string          // of the log messages that the client wants; empty: none

	users int         // requests of a principal; guarded by Server.mu
	idle  *time.Timer // runs while users is 0; guarded by Server.mu

	running atomic.Int64 // copies

	mu    sync.Mutex // guards the fields below, and seat.copy
	seats map[string]*seat
	told  map[*notifier]int // of the client, with how many have joined it
	stop  context.CancelFunc
	ended bool
}

// seat is the place of the copy of a server. It stays until the end of the tenant, with what the client
// has subscribed to.
type seat struct {
	tenant        *tenant
	server        string
	subscriptions *subscriptions.Counter
	copy          *serverCopy   // nil: none runs
	ending        chan struct{} // closed when nothing is left of the copy that was ended last; nil then
	starts        uint64        // of copies
}

// serverCopy is a copy. It does not change.
type serverCopy struct {
	*facade.Client
	gen, epoch uint64 // of the server that is registered, at the start of the copy
}

// principalTenant is tenant.key of principals. It is not empty, because the id of a task of a copy is none of
// the server that all clients share.
const principalTenant = "principal"

func newTenant(g *gateway, key, principal string) *tenant {
	return &tenant{gateway: g, key: key, principal: principal, options: func() []facade.Option { return nil }, level: func() string { return "" },
		seats: map[string]*seat{}, told: map[*notifier]int{}}
}

// client returns the copy of a server, which it starts if there is none. It does not wait for it. The
// error says why there is none.
func (t *tenant) client(server string) (*facade.Client, error) {
	if t.gateway.client.Closed() { // its copies end, too
		return nil, &mcpvisor.Error{Server: server, Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeNotSent, Cause: errNotCopied}
	}
	status, known := t.gateway.client.ServerStatus(server)
	if !known { // nothing is kept of names that clients invent
		return nil, errNoServer(server)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.seatLocked(server)
	if s.isStaleLocked(&status) {
		s.endLocked()
	}
	switch {
	case t.ended:
		return nil, message.ErrCallEnded
	case !t.mayCopy(server): // no more, since the request was admitted
		return nil, &mcpvisor.Error{Server: server, Gen: status.Gen, Epoch: status.Epoch, Kind: mcpvisor.KindClosed, Outcome: mcpvisor.OutcomeNotSent, Cause: errNotCopied}
	case isGivenUp(&status):
		return nil, &mcpvisor.Error{Server: server, Gen: status.Gen, Epoch: status.Epoch, Kind: mcpvisor.KindEvicted, Outcome: mcpvisor.OutcomeNotSent}
	case s.copy == nil && status.State == supervisor.StateStopping: // it is being replaced
		return nil, &mcpvisor.Error{Server: server, Gen: status.Gen, Epoch: status.Epoch, Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent}
	case s.copy == nil:
		if err := s.startLocked(&status); err != nil {
			return nil, err
		}
	}
	return s.copy.Client, nil
}

var errNotCopied = errors.New("the client has no copy of the server any more")

func errNoServer(name string) error {
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.KindUnknownServer, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("no server of that name is registered")}
}

// isGivenUp reports whether a server that is registered does not run, and its copies must not.
func isGivenUp(s *mcpvisor.ServerStatus) bool {
	return s.State == supervisor.StateEvicted || s.State == supervisor.StateStopped
}

// seatOf returns the seat of a server, with or without a copy.
func (t *tenant) seatOf(server string) *seat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seatLocked(server)
}

func (t *tenant) seatLocked(server string) *seat {
	s := t.seats[server]
	if s == nil {
		s = &seat{tenant: t, server: server}
		s.subscriptions = subscriptions.New(s.subscribe)
		s.subscriptions.Bound += max(t.gateway.opts.maxWait, 0)
		t.seats[server] = s
	}
	return s
}

// subscribe subscribes at the copy, or ends that.
func (s *seat) subscribe(ctx context.Context, r resource.Name, on bool) error {
	if on {
		return s.tenant.gateway.whenUp(ctx, func() (*facade.Client, error) { return s.tenant.client(s.server) }, func(client *facade.Client) error {
			return client.Subscribe(ctx, r.Server, r.URI)
		})
	}
	s.tenant.mu.Lock()
	running := s.copy
	s.tenant.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.Unsubscribe(ctx, r.Server, r.URI)
}

// isStaleLocked reports whether the copy is not one of the server that is registered now. A copy that was
// given up gets another chance when that server was started again.
func (s *seat) isStaleLocked(status *mcpvisor.ServerStatus) bool {
	if s.copy == nil {
		return false
	}
	if s.copy.Closed() || isGivenUp(status) || status.Gen != s.copy.gen { // closed: with the client
		return true
	}
	if status.Epoch == s.copy.epoch {
		return false
	}
	own, _ := s.copy.ServerStatus(s.server)
	return isGivenUp(&own) || own.State == supervisor.StateUnauthorized
}

// copyKinds are the events of a copy that its client is told about.
var copyKinds = []mcpvisor.EventKind{mcpvisor.EventReady, mcpvisor.EventResourceUpdated, mcpvisor.EventLog}

func (s *seat) startLocked(status *mcpvisor.ServerStatus) error {
	t := s.tenant
	settings := t.gateway.opts.settings
	if err := settings.copies.take(settings.load(), t.principal, s.server); err != nil {
		if s.ending != nil {
			return &lastCopyEnds{err, s.ending}
		}
		return err
	}
	client, err := t.gateway.client.CopyServer(s.server, t.options()...)
	if err != nil {
		settings.copies.give(t.principal)
		return err
	}
	s.copy = &serverCopy{client, status.Gen, status.Epoch}
	if t.key != "" { // principals have no session that is told
		t.gateway.elicitations.Follow(client, t.gateway.client, t.key)
	}
	s.starts++
	t.running.Add(1)
	go s.follow(client, client.WatchFrom(context.Background(), 0, copyKinds...), s.starts)
	if t.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t.stop = cancel
		changes := t.gateway.client.Watch(ctx, mcpvisor.EventRegistered, mcpvisor.EventUnregistered, mcpvisor.EventReady, mcpvisor.EventEvicted)
		settings.watch(t)
		go func() {
			for range changes {
				t.review()
			}
		}()
	}
	return nil
}

// lastCopyEnds says that there is no room for a copy, but will be when the one before it has ended.
type lastCopyEnds struct {
	error
	ended <-chan struct{}
}

// withoutWait is the error of a request that does not wait for it.
func withoutWait(err error) error {
	var full *lastCopyEnds
	if errors.As(err, &full) {
		return full.error
	}
	return err
}

// endLocked ends the copy, if there is one. It does not wait.
func (s *seat) endLocked() {
	if s.copy == nil {
		return
	}
	ended, t, done := s.copy, s.tenant, make(chan struct{})
	s.copy, s.ending = nil, done
	t.running.Add(-1)
	go func() {
		_ = ended.Close(context.Background()) // what is left behind is in the log
		t.gateway.opts.settings.copies.give(t.principal)
		t.mu.Lock()
		if s.ending == done {
			s.ending = nil
		}
		t.mu.Unlock()
		close(done)
		t.review() // there is room for one that is needed
	}()
}

// follow reports the events of a copy until it is closed. What its client has subscribed to at an earlier
// copy is subscribed to again, and counts as updated, as after each restart.
func (s *seat) follow(client *facade.Client, events <-chan mcpvisor.Event, start uint64) {
	t := s.tenant
	first := start == 1 // it begins without subscriptions
	updated := func() { t.each(func(n *notifier) { n.ReportUpdates(s.server, t.gateway.view.OffersUpdate) }) }
	for e := range events {
		switch kind := e.Kind; {
		case kind == mcpvisor.EventReady:
			if level := t.level(); level != "" {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), setLevelTimeout)
					defer cancel()
					_ = client.SetLoggingLevel(ctx, s.server, level)
				}()
			}
			if first && !s.subscriptions.IsLate() {
				first = false
				continue
			}
			first = false
			renewed := s.subscriptions.Renew(s.server, start)
			go func() {
				<-renewed
				updated()
			}()
		case kind == mcpvisor.EventResourceUpdated && t.gateway.view.OffersUpdate(s.server, e.URI):
			t.each(func(n *notifier) { n.ReportUpdate(s.server, e.URI) })
		case kind == mcpvisor.EventLog && t.gateway.view.Rules().OffersServer(s.server):
			t.each(func(n *notifier) { n.ReportLog(*e.Log) })
		case kind == mcpvisor.EventMissed:
			updated()
		}
	}
}

// settingsChanged implements settingsWatcher.
func (t *tenant) settingsChanged() { t.review() }

// mayCopy reports whether the client may have a copy of a server: each client has one ([connection.isCopied]), and the
// profile offers the server.
func (t *tenant) mayCopy(server string) bool {
	return t.gateway.opts.shareNow(server) == ShareClient && t.gateway.view.Rules().OffersServer(server)
}

// review ends the copies of servers that were replaced, given up, removed or withheld, or that all clients
// share now. Where the client has subscriptions, a copy starts as soon as there may be one.
func (t *tenant) review() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for server, s := range t.seats {
		status, known := t.gateway.client.ServerStatus(server)
		copied := known && t.mayCopy(server)
		if !copied || s.isStaleLocked(&status) {
			s.endLocked()
		}
		if s.copy == nil && copied && !t.ended && !isGivenUp(&status) && status.State != supervisor.StateStopping && s.subscriptions.AreHeld() {
			_ = s.startLocked(&status) // the next request says why it fails
		}
	}
}

// end ends all copies, and lets none start. It does not wait.
func (t *tenant) end() {
	t.mu.Lock()
	t.ended = true
	stop := t.stop
	t.stop = nil
	for _, s := range t.seats {
		s.endLocked()
	}
	t.mu.Unlock()
	if stop != nil {
		t.gateway.opts.settings.ignore(t)
		stop()
	}
}

// join tells a notifier what copies report, until leave.
func (t *tenant) join(n *notifier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[n]++
}

func (t *tenant) leave(n *notifier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told[n]--; t.told[n] == 0 {
		delete(t.told, n)
	}
}

func (t *tenant) each(f func(*notifier)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.told {
		f(n)
	}
}

// copies are the copies that run.
func (t *tenant) copies() map[string]*facade.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]*facade.Client{}
	for server, s := range t.seats {
		if s.copy != nil {
			all[server] = s.copy.Client
		}
	}
	return all
}

// names are the servers of which copies run, sorted.
func (t *tenant) names() (servers []string) {
	for server := range t.copies() {
		servers = append(servers, server)
	}
	slices.Sort(servers)
	return servers
}

// isCopied reports whether each client has a copy of a server.
func (c *connection) isCopied(server string) bool { return c.opts.shareNow(server) == ShareClient }

// clientOf returns the client that has the incarnation of a server for this connection.
func (c *connection) clientOf(server string) (*facade.Client, error) {
	if !c.isCopied(server) {
		return c.client, nil
	}
	t := c.tenantOf()
	if t == nil {
		return nil, errNobody(server)
	}
	client, err := t.client(server)
	if err != nil && !c.isCopied(server) { // since this moment
		return c.client, nil
	}
	return client, err
}

// errNobody refuses a request whose client is not known: another one may get its copy.
func errNobody(server string) error {
	return message.InvalidRequest("server %s runs once for each client, and nothing says whose this request is: version %s has no sessions over HTTP, and the request has no token. Send a bearer token, connect over stdio, or use version %s. Nothing was done.", server, modernVersion, tasksVersion)
}

// statusOf is the status of the incarnation of a server that this connection has used.
func (c *connection) statusOf(server string) (mcpvisor.ServerStatus, bool) {
	if !c.isCopied(server) {
		return c.client.ServerStatus(server)
	}
	if t := c.tenant.Load(); t != nil {
		if copied := t.copies()[server]; copied != nil {
			return copied.ServerStatus(server)
		}
	}
	return mcpvisor.ServerStatus{}, false
}

// tenantOf returns the tenant of the connection; nil if nobody knows whose requests it has.
func (c *connection) tenantOf() *tenant {
	if t := c.tenant.Load(); t != nil {
		return t
	}
	c.tenantMu.Lock()
	defer c.tenantMu.Unlock()
	t := c.tenant.Load()
	if t == nil && c.newTenant != nil && c.ctx.Err() == nil {
		t = c.newTenant()
		c.tenant.Store(t)
	}
	return t
}

// ownTenant lets the connection be a tenant of its own, which ends with it. key names it.
func (c *connection) ownTenant(key, principal string) {
	c.tenantKey = key
	c.newTenant = func() *tenant {
		t := newTenant(c.gateway, key, principal)
		t.options, t.level = c.copyOptions, c.copyLevel
		t.join(c.notify)
		c.peer.ShowCopies(t.names)
		return t
	}
	c.leaveTenant = func(t *tenant) {
		t.end()
		c.peer.ShowCopies(nil) // which would keep the session
		c.tasks.ForgetCopies(c.owner, key)
	}
}

// closeTenant frees what the connection has of its tenant.
func (c *connection) closeTenant() {
	c.tenantMu.Lock() // a request may be making it
	defer c.tenantMu.Unlock()
	if t := c.tenant.Load(); t != nil {
		c.leaveTenant(t)
	}
}

// hasCopies reports whether copies run because of the connection.
func (c *connection) hasCopies() bool {
	t := c.tenant.Load()
	return t != nil && t.running.Load() > 0
}

// copyOptions are those of a copy for a session before 2026-07-28: its client answers what the copy asks,
// and the copy is told that it does.
func (c *connection) copyOptions() []facade.Option {
	if !c.legacy.Load() {
		return nil
	}
	h := c.questions.handlers.Load()
	if h == nil {
		return []facade.Option{facade.WithDeclared(facade.Declared{})}
	}
	return []facade.Option{facade.WithDeclared(h.RawAnswers), facade.WithUnaskedHandlers(h)}
}

// copyLevel is the level of log messages that the session has set; empty: none.
func (c *connection) copyLevel() string {
	if level := c.notify.LevelOfLogs(); level < notices.NoLogs {
		return notices.LogLevels[level]
	}
	return ""
}

// subscriptionsOf are those of the incarnation of a server that this connection uses.
func (c *connection) subscriptionsOf(server string) (*subscriptions.Counter, error) {
	if !c.isCopied(server) {
		return c.subscriptions, nil
	}
	if _, known := c.client.ServerStatus(server); !known {
		return nil, errNoServer(server)
	}
	t := c.tenantOf()
	if t == nil {
		return nil, errNobody(server)
	}
	return t.seatOf(server).subscriptions, nil
}

// enterTenant returns the tenant of a principal, for one request; nil if the server is closed.
func (s *Server) enterTenant(x *exchange, peer *clients.Client) *tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil
	}
	t := s.tenants[x.owner]
	if t == nil {
		t = newTenant(x.gateway, principalTenant, x.principal.name)
		s.tenants[x.owner] = t
	}
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	t.users++
	peer.ShowCopies(t.names)
	return t
}

// leaveTenant ends what enterTenant began. Without requests the copies end after a time.
func (s *Server) leaveTenant(owner string, t *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users > 0 || s.tenants[owner] != t {
		return
	}
	drop := func() {
		delete(s.tenants, owner)
		t.end()
		t.gateway.tasks.ForgetCopies(owner, t.key)
	}
	if t.running.Load() == 0 {
		drop()
		return
	}
	t.idle = time.AfterFunc(s.limits.SessionIdle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users == 0 && s.tenants[owner] == t {
			drop()
		}
	})
}

// closeTenantsLocked ends the copies of all principals.
func (s *Server) closeTenantsLocked() {
	for owner, t := range s.tenants {
		if t.idle != nil {
			t.idle.Stop()
		}
		delete(s.tenants, owner)
		t.end()
	}
}

// copyCount counts the copies of all gateways with the same settings, from their start until nothing of
// them is left. The zero value counts none. Safe for concurrent use.
type copyCount struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int // by principal
}

// take counts one more copy of a principal, or says why there must not be one.
func (n *copyCount) take(s *settings, principal, server string) error {
	most, mostOf := s.MaxCopies, s.MaxCopiesOfPrincipal
	setDefault(&most, DefaultMaxCopies)
	setDefault(&mostOf, DefaultMaxCopiesOfPrincipal)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.of[principal] >= mostOf && principal != "":
		return tooManyCopies(server, fmt.Sprintf("%s has %d copies of servers", message.Quote(principal), n.of[principal]))
	case n.of[principal] >= mostOf:
		return tooManyCopies(server, fmt.Sprintf("the clients without a token have %d copies of servers", n.of[principal]))
	case n.all >= most:
		return tooManyCopies(server, fmt.Sprintf("all clients have %d copies of servers", n.all))
	}
	if n.of == nil {
		n.of = map[string]int{}
	}
	n.all++
	n.of[principal]++
	return nil
}

func tooManyCopies(server, who string) error {
	return &jsonrpc.Error{Code: message.CodeBusy, Message: "server " + server + " runs once for each client, and " + who + ", which is the most; end sessions that are not needed, and try again. Nothing was done."}
}

// give takes a copy back that has ended.
func (n *copyCount) give(principal string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all--
	if n.of[principal]--; n.of[principal] == 0 {
		delete(n.of, principal)
	}
}
