package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// connection serves requests. In a Transport it is a session. Over HTTP before 2026-07-28 it is an
// active session (see httpSession), and since then a single request. Each request in flight has a
// goroutine.
//
// Four terms say who something belongs to:
//
//	principal   the owner of the token; empty without tokens. HTTPLimits, held calls and copies count for it
//	owner       the principal with its profile (owner.Name). Sessions, tasks and requestStates belong to it
//	tenant      has copies of servers: a session or, since 2026-07-28 over HTTP, an owner
//	tenantKey   names the tenant in ids of tasks, which also name the owner
type connection struct {
	*gateway
	owner        string      // see above; set before the first request
	noLinks      atomic.Bool // its version has no links in results
	followsTasks atomic.Bool // the peer of 2025-11-25 has declared tasks

	ctx context.Context // ends with the session; its cause is why
	// What cancel needs. A context.AfterFunc of ctx itself would cost each session three more objects.
	cancelContext context.CancelCauseFunc
	ignoreParent  func() bool
	made          atomic.Pointer[requests] // by requests, with the first request
	notify        *notifier                // what the session as a whole is told
	account       *budget.Budget           // counts what it makes the gateway hold; nil: nothing. Set before the first request
	ownAccount    bool                     // account is that of the session, and not of its principal
	out           *outbox                  // Read takes from it; nil over HTTP, where each POST has its own

	questions questions // of servers, to the peer

	// For copies of servers; see tenant. The functions are set before the first request. newTenant is
	// nil if the sender of its requests is not known.
	newTenant   func() *tenant
	leaveTenant func(*tenant)
	tenantKey   string     // tenant.key; principalTenant unless ownTenant sets another one
	tenantMu    sync.Mutex // locked while the tenant is made
	tenant      atomic.Pointer[tenant]
	legacy      atomic.Bool // the session speaks a version before 2026-07-28
	// legacyTenant has the copies that the session shares with others; nil until it needs one.
	legacyTenant atomic.Pointer[tenant]

	// Set before the first request.
	peer      *clients.Client // the client in the registry; nil: not counted
	unwatched func()          // called when a watch of a task has ended; may be nil
	connected bool            // of a Transport: the client ends with the connection

	introduced atomic.Bool // the registry knows the name of the client

	holdContext context.Context // held calls end with it; set before the first request
	holdOwner   roundtrip.Owner // held calls count for it; set like holdContext
	tripMu      sync.Mutex
	tripClients map[uint16]*roundtrip.Client // by what requests have declared; guarded by tripMu

	slots             atomic.Pointer[slots] // made when first needed: most sessions never do
	subscriptionCount atomic.Int64          // subscriptions of the session

	subscribedMu sync.Mutex             // guards subscribed. May be locked while the tenant is made
	subscribed   map[*subscription]bool // those that are not released
}

// newConnection opens a session that ends with ctx at the latest.
func newConnection(ctx context.Context, g *gateway) *connection {
	c := &connection{gateway: g, tenantKey: principalTenant}
	c.ctx, c.cancelContext = context.WithCancelCause(waitqueue.WithClient(ctx, c))
	c.questions.comeBack = comeBackTime
	c.holdContext, c.holdOwner = c.ctx, roundtrip.Owner{Session: c}
	c.questions.isOnlyPeer = func(server string) bool { return c.isCopied(server) || c.opts.standalone.isOnly(c) }
	c.notify = notices.New[*subscription]()
	c.ignoreParent = context.AfterFunc(ctx, c.close)
	return c
}

// slots lets one request of a session at a time do certain things. Each channel has a value while a
// request does it.
type slots struct {
	listing   chan struct{} // a list is made, or waits to be read
	levelling chan struct{} // the level of log messages is being set
}

func (c *connection) slotsOf() *slots {
	if p := c.slots.Load(); p != nil {
		return p
	}
	c.slots.CompareAndSwap(nil, &slots{make(chan struct{}, 1), make(chan struct{}, 1)})
	return c.slots.Load()
}

func (c *connection) requests() *requests {
	if q := c.made.Load(); q != nil {
		return q
	}
	made := newRequests(&c.opts.limits, c.begin, c.end)
	if c.out != nil { // over HTTP the body counts
		made.account = c.account
	}
	c.made.CompareAndSwap(nil, made)
	return c.made.Load()
}

// cancel ends the session. Only the first cause counts.
func (c *connection) cancel(cause error) {
	c.cancelContext(cause)
	if c.ignoreParent() { // otherwise close was called, or is about to be
		go c.close() // the caller may hold a mutex
	}
}

// keepAccount sets the account of a session, which ends with it.
func (c *connection) keepAccount(account *budget.Budget) {
	c.account, c.notify.Account, c.ownAccount = account, account, true
}

// readable makes the outbox that Read takes from. It is called before the session is used.
func (c *connection) readable() {
	limits := &c.opts.limits
	c.out = newOutbox(limits, c.notify)
	c.out.asks, c.out.account = true, c.account
	c.out.stalled = func() { c.cancel(limits.stallError()) }
}

// follow lets the session hear of events of the client.
func (c *connection) follow() { c.hub.join(c.notify, c.drain) }

// close frees what the session holds, when it has ended.
func (c *connection) close() {
	if c.out != nil {
		c.out.close()
	}
	c.hub.leave(c.notify)
	c.opts.standalone.remove(c)
	if c.ownAccount {
		c.account.Close()
	}
	if c.connected {
		c.opts.settings.holdings.leave("")
		c.elicitations.ForgetSession(c.notify.Key)
		c.peer.Connect(-1)
	}
	c.opts.settings.ignore(c)
	for _, s := range c.notify.Close() {
		c.releaseSubscription(s)
	}
	c.closeTenant()
}

// errEnded is the cause of a session that has ended without an error.
var errEnded = errors.New("the session has ended")

func (c *connection) end() { c.cancel(errEnded) }

// SessionID implements [mcp.Connection]. It is empty.
func (c *connection) SessionID() string { return "" }

// Read implements [mcp.Connection]. After the end of the session it returns io.EOF, or
// [ErrPeerDoesNotRead].
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if m, err := c.poll(); m != nil || err != nil {
			return m, err
		}
		select {
		case <-c.out.wake:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// poll is Read without the wait: it returns nil if there is nothing to read.
func (c *connection) poll() (jsonrpc.Message, error) {
	if c.ctx.Err() != nil {
		return nil, c.endError(io.EOF)
	}
	m, ended := c.out.next()
	if ended != nil {
		c.endRequest(ended)
	}
	return m, nil
}

// endError returns the error with which the session has ended; usual if it has ended without one.
func (c *connection) endError(usual error) error {
	if cause := context.Cause(c.ctx); cause != nil && !errors.Is(cause, errEnded) {
		return cause
	}
	return usual
}

// Write implements [mcp.Connection]. It waits for no server. A request waits while the session has as
// many as its [Limits] allow; other messages do not wait.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	answer, answers := m.(*jsonrpc.Response)
	if c.ctx.Err() != nil {
		return c.endError(fmt.Errorf("%w: the session with mcpvisor has ended", mcp.ErrConnectionClosed))
	}
	switch {
	case answers && answer != nil:
		c.receiveAnswer(answer)
	case !ok || r == nil:
	case !r.ID.IsValid():
		c.receiveNotification(r)
	default:
		made := newRequest(c.ctx, r, c.out)
		made.turn = newTurn(made)
		if err := c.requests().admit(ctx, made); err != nil {
			return c.endError(err)
		}
	}
	return nil
}

// Close implements [mcp.Connection]. It cancels the requests in flight and does not wait
// for them.
func (c *connection) Close() error {
	c.end()
	return nil
}

// begin begins to serve a request.
func (c *connection) begin(r *request) { go c.serve(r) }

// serve answers one request, when it is its turn.
func (c *connection) serve(r *request) {
	if r.refusal != "" {
		c.respond(r, &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.refusal}})
		return
	}
	outcome := clients.OutcomeError
	if r.isListen {
		c.peer.Stream(1)
		defer c.peer.Stream(-1)
	} else {
		c.peer.Begin(r.Method == "tools/call")
		defer func() { c.peer.Done(outcome) }()
	}
	r.turn.await()
	// Code of the host, such as an interceptor, may end the goroutine. Then this is the answer.
	response := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Method + " ended its goroutine without an answer (runtime.Goexit)"}}
	defer c.respond(r, response)
	result, err := c.answerSafely(r)
	outcome = outcomeOf(r, err)
	response.Result, response.Error = result, nil
	if err != nil {
		response.Result, response.Error = nil, err
	}
}

// respond lets the next request in the queue of the URI begin, and adds the answer to the outbox. The
// request ends when its answer is read. If the peer has canceled the request, it gets no answer, and the
// request ends now.
func (c *connection) respond(r *request, response *jsonrpc.Response) {
	c.requests().endTurn(r)
	r.cancel()
	c.questions.end(r)
	switch {
	case r.canceled.Load():
		r.giveUpHeld()
		r.out.drop(r)
		c.endRequest(r)
	case r.out.http != nil && !r.out.http.holdAnswer(response):
		r.giveUpHeld()
		r.out.addShort(r, &jsonrpc.Response{ID: r.ID, Error: errManyUnread})
	case r.out == c.out && !r.takeRoom(response):
		r.giveUpHeld()
		r.out.addShort(r, &jsonrpc.Response{ID: r.ID, Error: errManyUnread})
	case r.out.addAnswer(r, response):
	case r.out == c.out:
		c.cancel(c.opts.limits.unreadError())
	default: // a request of a batch over HTTP, whose answers come faster than they are passed on
		r.giveUpHeld()
		r.out.addShort(r, &jsonrpc.Response{ID: r.ID, Error: errLongBatch})
	}
}

// endRequest frees what a request has.
func (c *connection) endRequest(r *request) {
	if r.lists {
		<-c.slotsOf().listing
	}
	c.requests().end(r)
}

// answerSafely is answer, with a panic as an error.
func (c *connection) answerSafely(r *request) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v", r.Method, p)}
		}
	}()
	return c.answer(r)
}

// acquire puts a value into one of the channels of slots, when it is free.
func (r *request) acquire(slot chan<- struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-r.ctx.Done():
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was canceled"}
	}
}

// drain ends the session as soon as no request is in flight.
func (c *connection) drain() {
	c.hub.leave(c.notify)
	c.notify.EndListeners()
	c.requests().drain()
}
