package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// session has what lives as long as a client of the gateway: who the client is, what it has subscribed to, its copies of
// servers, its bounds. A Transport makes one for each connection. Over HTTP before 2026-07-28 there is one while it is
// needed (see httpSession), and since then one for each POST.
//
// Four terms say who something belongs to:
//
//	principal     the owner of the token; empty without tokens. HTTPLimits, held calls and copies count for it
//	owner         the principal with its profile (owner.Name). Sessions, tasks and requestStates belong to it
//	tenant        has copies of servers: a session or, since 2026-07-28 over HTTP, an owner
//	tenancy.key   names the tenant in ids of tasks, which also name the owner
type session struct {
	gateway *gateway

	ctx context.Context // ends with the session; its cause is why
	// What cancel needs. A context.AfterFunc of ctx itself would cost each session three more objects.
	cancelContext context.CancelCauseFunc
	ignoreParent  func() bool

	// The client. Set before the first request.
	owner     string          // see above
	peer      *clients.Client // in the registry; nil: not counted
	line      *exchange       // of a Transport: the session ends with this connection; nil over HTTP
	unwatched func()          // called when a watch of a task has ended; may be nil

	follows      atomic.Bool // it has joined the hub
	legacy       atomic.Bool // it speaks a version before 2026-07-28
	noLinks      atomic.Bool // its version has no links in results
	followsTasks atomic.Bool // it speaks 2025-11-25, and has declared tasks
	introduced   atomic.Bool // the registry knows its name

	account    *budget.Budget        // counts what it makes the gateway hold; nil: nothing. Set before the first request
	ownAccount bool                  // account is that of the session, and not of its principal
	requests   requests              // those that have not ended
	slots      atomic.Pointer[slots] // made when first needed: most sessions never do

	notify     *notifier  // what the session as a whole is told
	questions  questions  // of servers, to the client
	subscriber subscriber // to resources
	tenancy    tenancy    // which copies of servers it uses

	holdContext context.Context // held calls end with it; set before the first request
	holdOwner   roundtrip.Owner // held calls count for it; set like holdContext
	tripMu      sync.Mutex
	tripClients map[uint16]*roundtrip.Client // by what requests have declared; guarded by tripMu
}

// newSession opens a session that ends with ctx at the latest.
func newSession(ctx context.Context, g *gateway) *session {
	s := &session{gateway: g, notify: notices.New[*subscription]()}
	s.ctx, s.cancelContext = context.WithCancelCause(waitqueue.WithClient(ctx, s))
	s.holdContext, s.holdOwner = s.ctx, roundtrip.Owner{Session: s}
	s.requests.limits, s.requests.idle = &g.opts.limits, s.end
	s.questions.session, s.questions.comeBack = s, comeBackTime
	s.subscriber.session, s.subscriber.gateway = s, g
	s.tenancy.session, s.tenancy.gateway, s.tenancy.key = s, g, principalTenant
	s.ignoreParent = context.AfterFunc(ctx, s.close)
	return s
}

// slots lets one request of a session at a time do certain things. Each channel has a value while a
// request does it.
type slots struct {
	listing   chan struct{} // a list is made, or waits to be read
	levelling chan struct{} // the level of log messages is being set
}

func (s *session) slotsOf() *slots {
	if p := s.slots.Load(); p != nil {
		return p
	}
	s.slots.CompareAndSwap(nil, &slots{make(chan struct{}, 1), make(chan struct{}, 1)})
	return s.slots.Load()
}

// cancel ends the session. Only the first cause counts.
func (s *session) cancel(cause error) {
	s.cancelContext(cause)
	if s.ignoreParent() { // otherwise close was called, or is about to be
		go s.close() // the caller may hold a mutex
	}
}

// keepAccount sets the account of a session, which ends with it.
func (s *session) keepAccount(account *budget.Budget) {
	s.account, s.notify.Account, s.ownAccount = account, account, true
}

// follow lets the session hear of events of the client.
func (s *session) follow() {
	s.follows.Store(true)
	s.gateway.hub.join(s.notify, s.drain)
}

// close frees what the session holds, when it has ended.
func (s *session) close() {
	if s.line != nil {
		s.line.out.close()
	}
	if s.follows.Load() { // most sessions over HTTP end after one request
		s.gateway.hub.leave(s.notify)
	}
	s.gateway.opts.standalone.remove(s)
	if s.ownAccount {
		s.account.Close()
	}
	if s.line != nil {
		s.gateway.opts.settings.holdings.leave("")
		s.gateway.elicitations.ForgetSession(s.notify.Key)
		s.peer.Connect(-1)
	}
	s.gateway.opts.settings.ignore(&s.subscriber)
	for _, one := range s.notify.Close() {
		s.subscriber.release(one)
	}
	s.tenancy.close()
}

// errEnded is the cause of a session that has ended without an error.
var errEnded = errors.New("the session has ended")

func (s *session) end() { s.cancel(errEnded) }

// endError returns the error with which the session has ended; usual if it has ended without one.
func (s *session) endError(usual error) error {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, errEnded) {
		return cause
	}
	return usual
}

// drain ends the session as soon as no request is in flight.
func (s *session) drain() {
	s.gateway.hub.leave(s.notify)
	s.notify.EndListeners()
	s.requests.drain()
}

// readClientInfo reads the name and the version of a client.
func readClientInfo(said json.RawMessage) (name, version string) {
	name, _ = jsonscan.ReadString(jsonscan.Member(said, "name"))
	version, _ = jsonscan.ReadString(jsonscan.Member(said, "version"))
	return name, version
}

// introduce tells the registry the name and version of a client of a Transport. It does so once: in
// initialize, or in the first request of 2026-07-28 that has them.
func (s *session) introduce(said json.RawMessage, protocol string) {
	if s.peer == nil || s.introduced.Load() {
		return
	}
	name, version := readClientInfo(said)
	if name == "" {
		return
	}
	s.introduced.Store(true)
	s.peer.Introduce(clients.Info{Name: name, Version: version, Protocol: protocol})
}
