package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/elicited"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/gateway/internal/offer"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/gateway/internal/subscriptions"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// pageSize is how many entries one page of a list has.
const pageSize = 1000

// Option configures a [Transport] or a [Handler]. If two options set the same thing, the last one
// counts.
type Option func(*options)

type options struct {
	pageSize   int
	limits     Limits
	maxWait    time.Duration
	names      *Names // nil: aliases
	settings   *SettingsVar
	profile    string // the name of the offered profile; empty: everything is offered
	clients    *clients.Registry
	standalone *StandaloneQuestions // nil: standalone questions are not asked

	key []byte // signs and seals; random by default

	// Of a Handler.
	http           HTTPLimits
	verify         auth.TokenVerifier
	verifyDetails  *auth.RequireBearerTokenOptions
	identify       func(*http.Request) (Identity, error) // in place of verify; nil: none
	hosts, origins []string                              // as settings.ParseHost and ParseOrigin return them
}

// WithClients sets the registry that counts the clients. Several gateways can share one. Default: a
// registry for this gateway alone. [Server.Status] describes its clients.
func WithClients(r *clients.Registry) Option {
	return func(o *options) {
		if r != nil {
			o.clients = r
		}
	}
}

// Transport returns a transport whose sessions answer from client. It may be connected any
// number of times, also concurrently. Its sessions share only the subscriptions to resources:
// one is made for all of them, and ends with the last one. Two transports of one client do not
// know each other's subscriptions, nor those of the host: the first one to unsubscribe ends a
// subscription for all.
//
// A session ends with Close, or after the client was closed, once the answers to the requests in
// flight have been read. A session that no caller reads ends only with Close. Transport panics if
// client is nil. Connect does not fail. Safe for concurrent use.
func Transport(client *facade.Client, opts ...Option) mcp.Transport {
	if client == nil {
		panic("gateway.Transport: the client is nil")
	}
	return newGateway(client, newOptions(opts))
}

func newOptions(opts []Option) options {
	o := options{pageSize: pageSize, limits: Limits{}.withDefaults(), maxWait: DefaultMaxWait, settings: new(SettingsVar), http: HTTPLimits{}.withDefaults(), clients: clients.New()}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.key == nil {
		o.key = sessionid.NewKey()
	}
	return o
}

// gateway has what the sessions of one transport, or of one profile of a handler, share.
type gateway struct {
	client        *facade.Client
	opts          options // read only
	catalog       *listing.Catalog
	listed        atomic.Pointer[listedBy]
	view          *offer.View
	hub           hub
	marks         *sync.Map              // *headerparams.Table by weak.Pointer[mcp.Tool]; of a Server's first gateway
	subscriptions *subscriptions.Counter // shared by all profiles
	results       *longresult.Store      // shared by all profiles
	tasks         *opentasks.Store       // shared by all profiles
	holds         *roundtrip.Store       // shared by all profiles
	elicitations  *elicited.Store        // shared by all gateways with the same settings
}

func newGateway(client *facade.Client, o options) *gateway {
	made := subscriptions.New(func(ctx context.Context, r resource.Name, on bool) error {
		if on {
			return client.Subscribe(ctx, r.Server, r.URI)
		}
		return client.Unsubscribe(ctx, r.Server, r.URI)
	})
	return newGatewayOf(client, o, made, longresult.New(o.settings.hold), opentasks.New(o.http.MaxTasks, o.settings.hold), roundtrip.New(o.key, roundtrip.Limits{Calls: o.limits.MaxHeld, Bytes: o.limits.MaxHeldBytes, Hold: o.settings.hold}))
}

// newGatewayOf makes the gateway of one profile. It shares the given stores with the gateways of the
// other profiles.
func newGatewayOf(client *facade.Client, o options, made *subscriptions.Counter, kept *longresult.Store, tasks *opentasks.Store, held *roundtrip.Store) *gateway {
	g := &gateway{client: client, opts: o, marks: new(sync.Map), subscriptions: made, results: kept, tasks: tasks, holds: held}
	g.view = offer.NewView(relay.Of(client), func() *offer.Rules { return g.rulesOf(o.settings.load()) })
	g.elicitations = &o.settings.elicitations
	g.hub = hub{gateway: g, members: map[*notifier]func(){}}
	g.catalog = listing.New(g.view, o.pageSize, g.terms, g.hub.reportLists)
	o.clients.OfferTo(o.profile, g.offer)
	return g
}

// offer describes what the clients of the gateway can see and call.
func (g *gateway) offer() clients.Offer {
	l := g.catalog.Get()
	return clients.Offer{Profile: g.opts.profile, Tools: l.Tools.Len(), Prompts: l.Prompts.Len(), Resources: l.Resources.Len(), Templates: l.Templates.Len(), Withheld: len(l.Withheld), Servers: l.Servers()}
}

// Connect implements [mcp.Transport]. It does not wait for any server.
func (g *gateway) Connect(context.Context) (mcp.Connection, error) {
	s := newSession(context.Background(), g)
	s.keepAccount(budget.New(math.MaxInt, g.opts.settings.enter("")))
	s.requests.account = s.account // over HTTP the body counts
	s.line = &exchange{session: s, asks: true, out: newOutbox(&g.opts.limits, s.notify, s.account)}
	s.line.out.stalled = func() { s.cancel(g.opts.limits.stallError()) }
	s.owner = owner.Name("", g.opts.profile)
	s.peer = g.opts.clients.Open("", clients.Info{Transport: "memory", Profile: g.opts.profile})
	s.peer.Connect(1)
	s.notify.Key = sessionKey{session: s}
	g.opts.standalone.set(s, eraUnknown)
	s.tenancy.makeOwn(rand.Text(), "")
	s.questions.openStream(&request{Request: noRequest, ctx: s.ctx, exchange: s.line}, 0)
	s.follow()
	return &connection{session: s, exchange: s.line}, nil
}

// connection is the session of a Transport, as its reader and writer see it.
type connection struct {
	session  *session
	exchange *exchange
}

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
		case <-c.exchange.out.wake:
		case <-c.session.ctx.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// poll is Read without the wait: it returns nil if there is nothing to read.
func (c *connection) poll() (jsonrpc.Message, error) {
	if c.session.ctx.Err() != nil {
		return nil, c.session.endError(io.EOF)
	}
	m, ended := c.exchange.out.next()
	if ended != nil {
		ended.end(true)
	}
	return m, nil
}

// Write implements [mcp.Connection]. It waits for no server. A request waits while the session has as
// many as its [Limits] allow; other messages do not wait.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	answer, answers := m.(*jsonrpc.Response)
	if c.session.ctx.Err() != nil {
		return c.session.endError(fmt.Errorf("%w: the session with mcpvisor has ended", mcp.ErrConnectionClosed))
	}
	switch {
	case answers && answer != nil:
		c.session.questions.receiveAnswer(answer)
	case !ok || r == nil:
	case !r.ID.IsValid():
		c.session.receiveNotification(r, nil)
	default:
		if err := c.session.requests.admit(ctx, newRequest(c.exchange, r, nil)); err != nil {
			return c.session.endError(err)
		}
	}
	return nil
}

// Close implements [mcp.Connection]. It cancels the requests in flight and does not wait
// for them.
func (c *connection) Close() error {
	c.session.end()
	return nil
}
