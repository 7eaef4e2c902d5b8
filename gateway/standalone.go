package gateway

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// StandaloneQuestions passes requests that servers before 2026-07-28 make while no call is in flight to
// the only client of a [Transport]. An example is the request for the roots when a session begins:
//
//	var questions gateway.StandaloneQuestions
//	client, err := facade.New(questions.Option(), facade.WithDeclared(facade.Declared{Roots: true}))
//	err = gateway.Serve(ctx, gateway.Transport(client, gateway.WithStandaloneQuestions(&questions)), &mcp.StdioTransport{})
//
// It is for a facade.Client that nothing else uses: if others use a server, too, its question may belong
// to any of them. A question waits until a client has sent notifications/initialized. It is refused if
// several clients are connected, or if the client speaks 2026-07-28, which has no requests outside of a
// call. A question ends when the server withdraws it, and when the session of the server or of the
// client ends. The zero value has no Transport yet. Safe for concurrent use. It must not be copied.
type StandaloneQuestions struct {
	once     sync.Once // makes handlers
	handlers facade.CallHandlers

	mu       sync.Mutex // guards the fields below
	sessions map[*connection]sessionEra
	changed  chan struct{} // closed when sessions change; nil without a waiting goroutine
}

// sessionEra says which versions the client of a session speaks, as far as that is known.
type sessionEra uint8

const (
	eraUnknown sessionEra = iota
	eraLegacy             // the client has sent notifications/initialized
	eraModern             // it has sent a request of 2026-07-28
)

// Option returns the option by which a facade.Client passes the questions of its servers to q.
func (q *StandaloneQuestions) Option() facade.Option {
	q.once.Do(func() { q.handlers.Raw = q.ask })
	return facade.WithUnaskedHandlers(&q.handlers)
}

// WithStandaloneQuestions makes the sessions of a [Transport] those that q asks. It has no effect on a
// [Handler], which serves any number of clients.
func WithStandaloneQuestions(q *StandaloneQuestions) Option {
	return func(o *options) { o.standalone = q }
}

var (
	errSeveralClients = &jsonrpc.Error{Code: message.CodeBusy, Message: "no client was asked: no call is known to which the request belongs, and several clients are connected"}
	errModernClient   = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client was asked: the client speaks " + modernVersion + ", in which it can be asked because of a call only, if that declares that it is answered"}
)

// set records the era of a session.
func (q *StandaloneQuestions) set(c *connection, era sessionEra) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if known, ok := q.sessions[c]; ok && known >= era || c.ctx.Err() != nil {
		return
	}
	if q.sessions == nil {
		q.sessions = map[*connection]sessionEra{}
	}
	q.sessions[c] = era
	q.wakeLocked()
}

// remove forgets a session that has ended.
func (q *StandaloneQuestions) remove(c *connection) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.sessions, c)
	q.wakeLocked()
}

func (q *StandaloneQuestions) wakeLocked() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// noteVersion records that the client of a Transport has sent a request of 2026-07-28.
func (c *connection) noteVersion(modern bool) {
	if modern && c.connected {
		c.opts.standalone.set(c, eraModern)
	}
}

// oneClient returns the session of the only client, if it can be asked, or an error that says why it
// cannot. If neither is known yet, it returns changed, which is closed when the sessions change.
func (q *StandaloneQuestions) oneClient() (one *connection, changed <-chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for c := range q.sessions {
		if c.ctx.Err() != nil { // it is about to be removed
			delete(q.sessions, c)
		}
	}
	if len(q.sessions) > 1 {
		return nil, nil, errSeveralClients
	}
	for c, era := range q.sessions {
		switch era {
		case eraLegacy:
			return c, nil, nil
		case eraModern:
			return nil, nil, errModernClient
		case eraUnknown:
		}
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return nil, q.changed, nil
}

// isOnly reports whether a session is the only one, and its client can be asked.
func (q *StandaloneQuestions) isOnly(c *connection) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.sessions) == 1 && q.sessions[c] == eraLegacy
}

// ask passes a request of a server to the only client, once there is one.
func (q *StandaloneQuestions) ask(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	for {
		c, changed, err := q.oneClient()
		switch {
		case err != nil:
			return nil, err
		case c != nil:
			return c.askAnytime(ctx, r)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// askAnytime is ask for a session to which all calls belong.
func (c *connection) askAnytime(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
	if c.questions.handlers.Load() == nil || !capability.CanAnswer(c.questions.declared, r.Method) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no client was asked: the client has not declared that it answers " + r.Method}
	}
	return c.ask(ctx, r)
}

// rootsChanged tells the servers that only this client uses, and that can ask it for its roots, that the
// roots have changed. Each call tells other servers the roots again.
func (c *connection) rootsChanged() {
	if c.questions.handlers.Load() == nil || !capability.CanAnswer(c.questions.declared, "roots/list") {
		return
	}
	if c.opts.standalone.isOnly(c) {
		c.client.NotifyRootsChanged()
	}
	for _, t := range []*tenant{c.tenant.Load(), c.legacyTenant.Load()} {
		if t == nil || t.shared && !c.opts.standalone.isOnly(c) {
			continue
		}
		for _, copied := range t.copies() {
			copied.NotifyRootsChanged()
		}
	}
}
