package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server with ShareClient runs once for each tenant. Its lists come from the facade.Client of the gateway,
// and its requests go to copies (relay.Methods.CopyServer):
//
//	tenancy.clientOf    → tenant.client → seat.copy      calls, reads, prompts, completions, tasks
//	tenant.follow       → notifiers of the tenant        what the copy reports
//	tenant.review       ← events of the client, settings   ends copies that are out of date

// tenant is a client of the gateway that has copies of servers: a session or, over HTTP
// since 2026-07-28, an owner. One tenant is all sessions before 2026-07-28 that answer questions; see
// [SettingsVar.enterLegacy].
type tenant struct {
	gateway   *gateway
	key       string                 // names it in ids of tasks; principalTenant over HTTP since 2026-07-28
	principal string                 // its copies count for the principal
	options   func() []facade.Option // for a new copy
	legacy    func() bool            // the client speaks a version before 2026-07-28
	shared    bool                   // several clients share its copies

	use use // by requests in flight if it is an owner, by sessions if it is shared. Guarded by Server.mu, or by SettingsVar.legacyMu

	running atomic.Int64 // number of its copies

	mu    sync.Mutex                  // guards the fields below, and seat.copy
	seats map[string]*seat            // by server
	told  map[*notifier][]*offer.View // hear what the copies report and the view offers; a view for each call of join
	stop  context.CancelFunc
	ended bool
}

// seat is for the copies of one server, one after another. It lasts until the end of the tenant, with
// the subscriptions of the client.
type seat struct {
	tenant        *tenant
	server        string
	subscriptions *subscriptions.Counter
	copy          *serverCopy   // nil: none runs
	ending        chan struct{} // closed when nothing is left of the last copy that was ended; nil then
	starts        uint64        // number of copies so far
}

// serverCopy is a running copy of a server. Only stopped changes.
type serverCopy struct {
	*facade.Client
	gen, epoch uint64 // of the registered server when the copy started
	stopped    bool   // with its server, by an operator or a fence; guarded by tenant.mu
}

// principalTenant is the key of a tenant that is an owner. It is not empty: in the id of a task an empty
// key means the server that all clients share.
const principalTenant = "principal"

func newTenant(g *gateway, key, principal string) *tenant {
	return &tenant{gateway: g, key: key, principal: principal, options: func() []facade.Option { return nil }, legacy: func() bool { return false },
		seats: map[string]*seat{}, told: map[*notifier][]*offer.View{}}
}

// client returns the copy of a server. If there is none, it starts one, and does not wait until that is ready. The
// error says why there can be none.
func (t *tenant) client(server string) (*facade.Client, error) {
	if relay.Of(t.gateway.client).Closed() { // copies end with the client
		return nil, &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeNotSent, Cause: errNotCopied}
	}
	status, known := t.gateway.client.ServerStatus(server)
	if !known { // a name that a client has invented gets no seat
		return nil, errNoServer(server)
	}
	_, isKnown := relay.Of(t.gateway.client).SpeaksBothEras(server)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.seatLocked(server)
	if s.isStaleLocked(&status) {
		s.endLocked()
	}
	switch {
	case t.ended:
		return nil, message.ErrCallEnded
	case t.legacy() && !isKnown:
		return nil, notCopied(&status, mcpvisor.ErrUnavailable, errNeverReady)
	case !t.mayCopy(server): // the settings have changed since the request was admitted
		return nil, notCopied(&status, mcpvisor.ErrClosed, errNotCopied)
	case isGivenUp(&status) && status.State != supervisor.StateStopped: // CopyServer says that
		return nil, notCopied(&status, mcpvisor.ErrEvicted, nil)
	case s.copy == nil && status.State == supervisor.StateStopping: // it is being replaced
		return nil, notCopied(&status, mcpvisor.ErrUnavailable, nil)
	case s.copy == nil:
		if err := s.startLocked(&status); err != nil {
			return nil, err
		}
	}
	return s.copy.Client, nil
}

var (
	errNotCopied  = errors.New("the client no longer has a copy of the server")
	errNeverReady = errors.New("the server has not been ready, so nothing is known of the versions that it speaks")
)

// notCopied is the error of a request to a server that has no copy.
func notCopied(s *mcpvisor.ServerStatus, kind mcpvisor.ErrorKind, cause error) error {
	return &mcpvisor.Error{Server: s.Name, Gen: s.Gen, Epoch: s.Epoch, Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Cause: cause}
}

func errNoServer(name string) error {
	return &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("no server of that name is registered")}
}

// isGivenUp reports whether a registered server has ended until an operator starts it, or for good, so that its copies
// must not run either.
func isGivenUp(s *mcpvisor.ServerStatus) bool {
	return s.State == supervisor.StateEvicted || s.State == supervisor.StateStopped || s.State == supervisor.StateUnregistered
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

// subscribe makes or ends a subscription at the copy.
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

// isStaleLocked reports whether there is a copy that has to be replaced or ended: of another
// registration, or given up. A copy that was given up or stopped is replaced once the registered server was started
// again.
func (s *seat) isStaleLocked(status *mcpvisor.ServerStatus) bool {
	if s.copy == nil {
		return false
	}
	if relay.Of(s.copy.Client).Closed() || isGivenUp(status) || status.Gen != s.copy.gen { // Closed: with its client
		return true
	}
	if s.copy.stopped {
		return status.State == supervisor.StateReady
	}
	if status.Epoch == s.copy.epoch {
		return false
	}
	own, _ := s.copy.ServerStatus(s.server)
	return isGivenUp(&own) || own.State == supervisor.StateUnauthorized
}

// copyKinds are the events of a copy that are passed on to its client.
var copyKinds = []mcpvisor.EventKind{mcpvisor.EventReady, mcpvisor.EventStopped, mcpvisor.EventEvicted, mcpvisor.EventResourceUpdated, mcpvisor.EventLog}

func (s *seat) startLocked(status *mcpvisor.ServerStatus) error {
	t := s.tenant
	settings := t.gateway.opts.settings
	switch {
	case !t.shared:
		if err := settings.copies.take(settings.load(), t.principal, s.server); err != nil {
			if s.ending != nil {
				return &lastCopyEnds{err, s.ending}
			}
			return err
		}
	case s.ending != nil: // one at a time: no setting bounds them
		return &lastCopyEnds{notCopied(status, mcpvisor.ErrUnavailable, nil), s.ending}
	}
	options := t.options()
	if both, _ := relay.Of(t.gateway.client).SpeaksBothEras(s.server); both && t.legacy() {
		options = append(options, relay.WithEra(mcpvisor.EraLegacy))
	}
	client, err := relay.Of(t.gateway.client).CopyServer(s.server, options...)
	if err != nil {
		t.giveCopy()
		return err
	}
	s.copy = &serverCopy{Client: client, gen: status.Gen, epoch: status.Epoch}
	if level := t.levelLocked(); level != "" { // before it is ready, so that it does not wait, and no call comes first
		ctx, cancel := context.WithTimeout(context.Background(), setLevelTimeout)
		_ = client.SetLoggingLevel(ctx, s.server, level)
		cancel()
	}
	if t.key != "" { // only sessions are told of ended interactions
		t.gateway.elicitations.Follow(client, t.gateway.client, t.key)
	}
	s.starts++
	t.running.Add(1)
	go s.follow(relay.Of(client).WatchFrom(context.Background(), 0, copyKinds...), s.starts)
	if t.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t.stop = cancel
		changes := t.gateway.client.Watch(ctx, mcpvisor.EventRegistered, mcpvisor.EventUnregistered, mcpvisor.EventReady, mcpvisor.EventEvicted, mcpvisor.EventStopped, mcpvisor.EventDown)
		settings.watch(t)
		go func() {
			for e := range changes {
				if t.shared {
					t.followServer(e)
				}
				t.review()
			}
		}()
	}
	return nil
}

// giveCopy ends the count of a copy.
func (t *tenant) giveCopy() {
	if !t.shared {
		t.gateway.opts.settings.copies.give(t.principal)
	}
}

// lastCopyEnds says that there is no room for a copy until the one before it has ended.
type lastCopyEnds struct {
	error
	ended <-chan struct{}
}

// withoutWait returns the error of a request that does not wait for the end of the last copy.
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
		_ = ended.Unregister(context.Background(), s.server, facade.WithDrain())
		_ = ended.Close(context.Background()) // what is left behind is in the log
		t.giveCopy()
		t.mu.Lock()
		if s.ending == done {
			s.ending = nil
		}
		t.mu.Unlock()
		close(done)
		t.review() // now a copy that is needed may start
	}()
}

// follow reports the events of a copy until it is closed. It subscribes again to what the client has
// subscribed to at an earlier copy. Each such resource counts as updated, as after a restart.
func (s *seat) follow(events <-chan mcpvisor.Event, start uint64) {
	t := s.tenant
	first := start == 1 // the first copy has no subscriptions to renew
	updated := func() { t.each(func(n *notifier, v *offer.View) { n.ReportUpdates(s.server, v.OffersUpdate) }) }
	for e := range events {
		switch kind := e.Kind; {
		case kind == mcpvisor.EventReady:
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
		case kind == mcpvisor.EventStopped, kind == mcpvisor.EventEvicted && e.Cause != nil && e.Cause.Kind == supervisor.CauseFenced:
			t.mu.Lock()
			if s.copy != nil && s.starts == start {
				s.copy.stopped = true
			}
			t.mu.Unlock()
			t.review() // the server itself may run: the stop or fence crossed another start
		case kind == mcpvisor.EventResourceUpdated:
			t.each(func(n *notifier, v *offer.View) {
				if v.OffersUpdate(s.server, e.URI) {
					n.ReportUpdate(s.server, e.URI, heardFrom(s.subscriptions))
				}
			})
		case kind == mcpvisor.EventLog && !(t.shared && t.gateway.opts.settings.tokens.Load()): // as in hub.report
			t.each(func(n *notifier, v *offer.View) {
				if v.Rules().OffersServer(s.server) {
					n.ReportLog(*e.Log)
				}
			})
		case kind == mcpvisor.EventMissed:
			updated()
		}
	}
}

// settingsChanged implements settingsWatcher.
func (t *tenant) settingsChanged() { t.review() }

// mayCopy reports whether the client may have a copy of a server: ShareClient applies to the server, and
// the profile offers it. A shared copy needs a server that speaks both eras.
func (t *tenant) mayCopy(server string) bool {
	if t.shared {
		both, _ := relay.Of(t.gateway.client).SpeaksBothEras(server)
		return both
	}
	return t.gateway.opts.shareNow(server) == ShareClient && t.gateway.view.Rules().OffersServer(server)
}

// review ends the copies of servers that were replaced, given up, removed or hidden, and of servers that
// all clients share now. If the client has subscriptions at a server, it starts a copy as soon as one
// may run.
func (t *tenant) review() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for server, s := range t.seats {
		status, known := t.gateway.client.ServerStatus(server)
		copied := known && t.mayCopy(server)
		if !copied || s.isStaleLocked(&status) {
			s.endLocked()
		}
		_, isKnown := relay.Of(t.gateway.client).SpeaksBothEras(server)
		if s.copy == nil && copied && !t.ended && (isKnown || !t.legacy()) && !isGivenUp(&status) && status.State != supervisor.StateStopping && s.subscriptions.AreHeld() {
			_ = s.startLocked(&status) // the next request says why it fails
		}
	}
}

// end ends all copies, and lets no further ones start. It does not wait.
func (t *tenant) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.rest()
}

// rest ends all copies. It does not wait.
func (t *tenant) rest() {
	t.mu.Lock()
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

// join lets a notifier hear what the copies report and the view offers, until leave.
func (t *tenant) join(n *notifier, view *offer.View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[n] = append(t.told[n], view)
}

func (t *tenant) leave(n *notifier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told[n] = t.told[n][1:]; len(t.told[n]) == 0 {
		delete(t.told, n)
	}
}

func (t *tenant) each(f func(*notifier, *offer.View)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, views := range t.told {
		f(n, views[0])
	}
}

// copies returns the running copies, by server.
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

// names returns the servers that have a running copy, sorted.
func (t *tenant) names() (servers []string) {
	for server := range t.copies() {
		servers = append(servers, server)
	}
	slices.Sort(servers)
	return servers
}

// isCopied reports whether each client has its own copy of a server.
func (g *gateway) isCopied(server string) bool { return g.opts.shareNow(server) == ShareClient }

// tenancy says which incarnation of a server serves a session: the one that is registered, or the copy of a tenant.
type tenancy struct {
	session *session
	gateway *gateway

	// Set before the first request. enter is nil if the sender of the requests is not known.
	enter func() *tenant
	leave func(*tenant)
	key   string // tenant.key; principalTenant unless makeOwn sets another one

	mu     sync.Mutex             // locked while a tenant is made
	own    atomic.Pointer[tenant] // nil until it is needed
	shared atomic.Pointer[tenant] // has the copies that the session shares with others; nil until it needs one
}

// tenantFor returns the tenant that has the incarnation of a server for the session; nil: it is the server
// that is registered.
func (t *tenancy) tenantFor(server string) (found *tenant, err error) {
	switch {
	case t.gateway.isCopied(server):
		if found = t.ownTenant(); found == nil {
			return nil, errUnknownSender(server)
		}
	case t.needsLegacy(server):
		if found = t.sharedTenant(); found == nil {
			return nil, message.ErrCallEnded
		}
	}
	return found, nil
}

// clientOf returns the facade.Client that has the incarnation of a server for the session.
func (t *tenancy) clientOf(server string) (*facade.Client, error) {
	found, err := t.tenantFor(server)
	if err != nil {
		return nil, err
	}
	if found == nil {
		if t.session.mayBeAsked() {
			err = relay.Of(t.gateway.client).SpeakLegacy(t.session.ctx, server)
		}
		return t.gateway.client, err
	}
	client, err := found.client(server)
	if err == nil || t.gateway.isCopied(server) || t.needsLegacy(server) {
		return client, err
	}
	return t.gateway.client, nil // the settings or the server have just changed
}

// copyKey returns the key of the tenant that has the incarnation of a server for the session; empty: none.
func (t *tenancy) copyKey(server string) string {
	switch {
	case t.gateway.isCopied(server):
		return t.key
	case t.needsLegacy(server):
		return legacyKey
	}
	return ""
}

// mayUse reports whether requests of the session to a server may reach the incarnation of a key: before the server
// has been ready it is not known which one of the two that serve the session it will be.
func (t *tenancy) mayUse(server, key string) bool {
	if _, known := relay.Of(t.gateway.client).SpeaksBothEras(server); !known && !t.gateway.isCopied(server) && t.session.mayBeAsked() {
		return key == "" || key == legacyKey
	}
	return t.copyKey(server) == key
}

// errUnknownSender is the error of a request to a server with copies if its client is not known: the copy of
// another client might get it.
func errUnknownSender(server string) error {
	return message.InvalidRequest("server %s runs once for each client, and nothing says whose this request is: version %s has no sessions over HTTP, and the request has no token. Send a bearer token, connect over stdio, or use version %s. Nothing was done.", server, modernVersion, tasksVersion)
}

// statusOf returns the status of the incarnation of a server that the session uses.
func (t *tenancy) statusOf(server string) (mcpvisor.ServerStatus, bool) {
	found := t.own.Load()
	if !t.gateway.isCopied(server) {
		found = t.shared.Load()
	}
	if found != nil {
		if copied := found.copies()[server]; copied != nil {
			return copied.ServerStatus(server)
		}
	}
	if t.gateway.isCopied(server) {
		return mcpvisor.ServerStatus{}, false
	}
	return t.gateway.client.ServerStatus(server)
}

// ownTenant returns the tenant of the session; nil if the sender of its requests is not known.
func (t *tenancy) ownTenant() *tenant {
	return t.tenantAt(&t.own, t.enter)
}

// tenantAt returns a tenant of the session, which it makes once, unless enter is nil or the session has ended.
func (t *tenancy) tenantAt(at *atomic.Pointer[tenant], enter func() *tenant) *tenant {
	if found := at.Load(); found != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := at.Load()
	if found == nil && enter != nil && t.session.ctx.Err() == nil {
		found = enter()
		at.Store(found)
	}
	return found
}

// makeOwn makes the session a tenant of its own, with that key. The tenant ends with the session.
func (t *tenancy) makeOwn(key, principal string) {
	t.key = key
	t.enter = func() *tenant {
		found := newTenant(t.session.gateway, key, principal)
		found.options, found.legacy = t.copyOptions, t.session.legacy.Load
		found.join(t.session.notify, t.gateway.view)
		t.session.peer.ShowCopies(found.names)
		return found
	}
	t.leave = func(found *tenant) {
		found.end()
		t.session.peer.ShowCopies(nil) // t.names would keep the session in memory
		t.gateway.tasks.ForgetCopies(t.session.owner, key)
	}
}

// close ends the use of the tenants by the session.
func (t *tenancy) close() {
	t.mu.Lock() // a request may be making it
	defer t.mu.Unlock()
	if found := t.own.Load(); found != nil {
		t.leave(found)
	}
	if found := t.shared.Load(); found != nil {
		t.gateway.opts.settings.leaveLegacy(t.session, found)
	}
}

// copyOptions returns the options of a copy for a session before 2026-07-28: its client answers the
// questions of the copy, and the copy is told what the client answers.
func (t *tenancy) copyOptions() []facade.Option {
	if !t.session.legacy.Load() {
		return nil
	}
	h := t.session.questions.handlers.Load()
	if h == nil {
		return []facade.Option{facade.WithDeclared(facade.Declared{})}
	}
	return []facade.Option{facade.WithDeclared(h.RawAnswers), relay.WithUnaskedHandlers(h)}
}

// subscriptionsOf returns the counter for the incarnation of a server that the session uses.
func (t *tenancy) subscriptionsOf(server string) (*subscriptions.Counter, error) {
	if _, known := t.gateway.client.ServerStatus(server); !known && t.gateway.isCopied(server) {
		return nil, errNoServer(server)
	}
	found, err := t.tenantFor(server)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return t.gateway.subscriptions, nil
	}
	return found.seatOf(server).subscriptions, nil
}

// A server that speaks both eras is spoken to in the modern one. Its tools may then be unable to ask a client of the
// legacy one: those of the go-sdk, for example, cannot send a question in a session of 2026-07-28. So sessions
// before 2026-07-28 that answer questions use a copy of the legacy era, which they share.

// legacyKey is tenant.key of the tenant that all sessions before 2026-07-28 share.
const legacyKey = "legacy"

// needsLegacy reports whether the requests of the session go to a copy that speaks the era of its client, or may have
// to: nothing is known of a server that has not been ready.
func (t *tenancy) needsLegacy(server string) bool {
	both, known := relay.Of(t.gateway.client).SpeaksBothEras(server)
	return t.session.mayBeAsked() && (both || !known)
}

// mayBeAsked reports whether the session is one before 2026-07-28 that answers questions.
func (s *session) mayBeAsked() bool { return s.legacy.Load() && s.questions.handlers.Load() != nil }

// sharedTenant returns the tenant of the sessions before 2026-07-28; nil if the session has ended.
func (t *tenancy) sharedTenant() *tenant {
	return t.tenantAt(&t.shared, func() *tenant { return t.gateway.opts.settings.enterLegacy(t.session) })
}

// enterLegacy returns the tenant that all sessions before 2026-07-28 share at servers that speak both eras, if
// they answer questions: so such a server has one more process for them, and not one for each. Each call needs
// one of leaveLegacy.
func (v *SettingsVar) enterLegacy(s *session) *tenant {
	v.legacyMu.Lock()
	defer v.legacyMu.Unlock()
	t := v.legacy[s.gateway.client]
	if t == nil {
		t = newTenant(s.gateway, legacyKey, "")
		t.shared, t.legacy = true, func() bool { return true }
		declared := facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true, RootsListChanged: s.gateway.opts.standalone != nil}
		t.options = func() []facade.Option { return []facade.Option{facade.WithDeclared(declared)} }
		maps.DeleteFunc(v.legacy, func(client *facade.Client, _ *tenant) bool { return relay.Of(client).Closed() })
		if v.legacy == nil {
			v.legacy = map[*facade.Client]*tenant{}
		}
		v.legacy[s.gateway.client] = t
	}
	t.use.begin()
	t.join(s.notify, s.gateway.view)
	return t
}

// leaveLegacy ends what enterLegacy began. Without further sessions the copies end after SessionIdle.
func (v *SettingsVar) leaveLegacy(s *session, t *tenant) {
	t.leave(s.notify)
	v.legacyMu.Lock()
	defer v.legacyMu.Unlock()
	if t.use.end() && t.running.Load() > 0 {
		t.use.dropAfter(s.gateway.opts.http.SessionIdle, &v.legacyMu, t.rest)
	}
}

// levelLocked returns the lowest log level that a session of the tenant has set; empty: none.
func (t *tenant) levelLocked() string {
	lowest := notices.NoLogs
	for n := range t.told {
		lowest = min(lowest, n.LevelOfLogs())
	}
	if lowest < notices.NoLogs {
		return notices.LogLevels[lowest]
	}
	return ""
}

// followServer ends a shared copy after a restart of the server.
func (t *tenant) followServer(e mcpvisor.Event) {
	if e.Kind == mcpvisor.EventDown && e.Cause.Asked() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s := t.seats[e.Server]; s != nil {
			s.endLocked()
		}
	}
}

// enterTenant returns the tenant of an owner, for one request; nil if the server is closed.
func (s *Server) enterTenant(x *httpExchange, peer *clients.Client) *tenant {
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
	t.use.begin()
	peer.ShowCopies(t.names)
	return t
}

// leaveTenant ends what enterTenant began. Without further requests the copies end after SessionIdle.
func (s *Server) leaveTenant(owner string, t *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := func() {
		if s.tenants[owner] == t {
			delete(s.tenants, owner)
			t.end()
			t.gateway.tasks.ForgetCopies(owner, t.key)
		}
	}
	switch {
	case !t.use.end():
	case t.running.Load() == 0:
		drop()
	default:
		t.use.dropAfter(s.limits.SessionIdle, &s.mu, drop)
	}
}

// copyCount counts the copies of all gateways with the same settings, from their start until nothing is
// left of them. The zero value counts none. Safe for concurrent use.
type copyCount struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int // by principal
}

// take counts one more copy of a principal, unless there are too many.
func (c *copyCount) take(s *checked, principal, server string) error {
	most, mostOf := s.MaxCopies, s.MaxCopiesOfPrincipal
	setDefault(&most, settings.DefaultMaxCopies)
	setDefault(&mostOf, settings.DefaultMaxCopiesOfPrincipal)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.of[principal] >= mostOf && principal != "":
		return tooManyCopies(server, fmt.Sprintf("%s has %d copies of servers", message.Quote(principal), c.of[principal]))
	case c.of[principal] >= mostOf:
		return tooManyCopies(server, fmt.Sprintf("the clients without a token have %d copies of servers", c.of[principal]))
	case c.all >= most:
		return tooManyCopies(server, fmt.Sprintf("all clients have %d copies of servers", c.all))
	}
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.all++
	c.of[principal]++
	return nil
}

func tooManyCopies(server, who string) error {
	return &jsonrpc.Error{Code: message.CodeBusy, Message: "server " + server + " runs once for each client, and " + who + ", which is the most; end sessions that are not needed, and try again. Nothing was done."}
}

// give gives back a copy that has ended.
func (c *copyCount) give(principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[principal]--; c.of[principal] == 0 {
		delete(c.of, principal)
	}
}
