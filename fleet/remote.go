package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/forward"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	lists "github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// remoteSession is a session of a server that runs on another node. It answers lists from the
// catalog of its owner, and passes calls on with the epoch of the placement. It ends when the node
// cannot be reached; a change of the place ends it, too, after the answers that are on their way.
// Safe for concurrent use.
type remoteSession struct {
	transport.Base
	*ending
	turnstile // of calls; leaving: the place has changed
	dialer    *dialer
	to        remote
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	route     peer.Route      // set by Open, as the fields below
	reader    *forward.Reader // requests that are not calls
	client    *peer.Client
	notify    func(transport.Notice)
	body      atomic.Pointer[encodedlists.Body]
	heard     atomic.Int64 // when the owner last answered, in nanoseconds since began
	began     time.Time
}

func newRemoteSession(d *dialer, to remote) *remoteSession {
	s := &remoteSession{ending: newEnding(), turnstile: turnstile{idle: make(chan struct{})}, dialer: d, to: to, began: time.Now(), notify: func(transport.Notice) {}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Open implements [transport.Session]. It waits until the owner can be reached and has listed what
// the server offers.
func (s *remoteSession) Open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.open(ctx); err != nil {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseSpawn, Err: err, Message: err.Error()})
		return s.Cause()
	}
	return nil
}

func (s *remoteSession) open(ctx context.Context) error {
	node, name := s.dialer.node, s.dialer.spec.Name
	to, err := node.peers.join(s, s.to.node, s.to.address)
	if err != nil {
		return err
	}
	s.OnReleased(func() { node.peers.leave(s, to) })
	if s.Cause() != nil { // it may have ended before
		node.peers.leave(s, to)
	}
	if err := node.peers.wait(ctx, to); err != nil {
		return err
	}
	s.client, s.route, s.reader = to.client, to.client.Route(name, s.to.epoch), forward.NewReader(to.client, name, s.to.epoch, s.dialer.buffer, func(n transport.Notice) { s.notify(n) })
	record, err := s.awaitRecord(ctx)
	if err != nil {
		return err
	}
	if record, err = s.loadFirst(ctx, to.client, record); err != nil {
		return err
	}
	s.heard.Store(int64(time.Since(s.began)))
	node.routes.opened(name, s)
	s.OnReleased(func() { node.routes.closed(name, s) })
	node.work.Go(func() { s.follow(to.client, record) })
	node.work.Go(func() { _ = s.reader.Follow(s.ctx) }) // a node of the version before has none
	return nil
}

// awaitRecord waits until the owner has said what it offers.
func (s *remoteSession) awaitRecord(ctx context.Context) (catalogRecord, error) {
	for {
		_, record, changed := s.dialer.node.routes.current(s.dialer.spec.Name)
		if record.Epoch >= s.to.epoch {
			return record, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return record, fmt.Errorf("node %q runs the server, and has not listed yet what it offers", s.to.node)
		}
	}
}

// load gets the catalog with a digest.
func (s *remoteSession) load(ctx context.Context, from *peer.Client, digest string) error {
	body, err := s.dialer.node.catalogs.cache.Get(ctx, s.to.node, digest, func(ctx context.Context) ([]byte, error) {
		return from.Catalog(ctx, s.dialer.spec.Name, digest)
	})
	if err != nil {
		return fmt.Errorf("the catalog of node %q: %w", s.to.node, err)
	}
	s.body.Store(body)
	return nil
}

// loadFirst gets the first catalog of the session. The owner may have changed it since it wrote the
// record: then a later record comes in a moment.
func (s *remoteSession) loadFirst(ctx context.Context, from *peer.Client, record catalogRecord) (catalogRecord, error) {
	for {
		err := s.load(ctx, from, record.Digest)
		if err == nil {
			return record, nil
		}
		_, now, changed := s.dialer.node.routes.current(s.dialer.spec.Name)
		if now == record {
			select {
			case <-changed:
			case <-time.After(catalogAgain):
			case <-ctx.Done():
			}
			_, now, _ = s.dialer.node.routes.current(s.dialer.spec.Name)
		}
		if now == record || now.Epoch < s.to.epoch || ctx.Err() != nil {
			return record, err
		}
		record = now
	}
}

// follow reads the catalog again when the owner has changed it, until the session ends. While it cannot be
// read, the session has the former one: calls are in flight, and need none. A record of the next owner is
// for the next session.
func (s *remoteSession) follow(from *peer.Client, have catalogRecord) {
	failed, pause := catalogRecord{}, catalogAgain
	for {
		_, record, changed := s.dialer.node.routes.current(s.dialer.spec.Name)
		var again <-chan time.Time
		if record.Epoch == s.to.epoch && record.Digest != have.Digest {
			ctx, cancel := context.WithTimeout(s.ctx, catalogTimeout)
			err := s.load(ctx, from, record.Digest)
			cancel()
			switch {
			case err == nil:
				have = record
				s.notify(transport.Notice{Kind: transport.ListChanged, Lists: lists.AllLists})
			case record != failed: // most often it has changed again
				failed, pause = record, catalogAgain
			default:
				pause = min(2*pause, catalogTimeout)
				s.dialer.node.log.Warn().Err(err).Str("server", s.dialer.spec.Name).Msg("the changed lists of the server cannot be read; the former ones stay")
			}
			if err != nil {
				again = time.After(pause)
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-s.Dead():
			return
		}
	}
}

const (
	// catalogTimeout bounds how long a changed catalog may take.
	catalogTimeout = 10 * time.Second
	// catalogAgain is when a catalog that could not be read is tried again, for the first time.
	catalogAgain = 500 * time.Millisecond
)

// Abort implements [transport.Session]. The server itself is not ended, unless an operator restarts it:
// then its owner does that, too.
func (s *remoteSession) Abort(cause *supervisor.Cause) {
	if !s.end(cause) {
		return
	}
	s.cancel()
	s.release()
	if cause.Kind != supervisor.CauseRestart || s.body.Load() == nil {
		return
	}
	name, node := s.dialer.spec.Name, s.dialer.node
	if to, _, _ := node.routes.current(name); to == nil || *to != s.to {
		return // it follows its route
	}
	node.work.Go(func() {
		ctx, cancel := context.WithTimeout(node.ctx, restartTimeout)
		defer cancel()
		if _, err := s.client.Request(ctx, peer.Request{Server: name, Epoch: s.to.epoch, Method: methodRestart}); err != nil {
			node.log.Warn().Err(err).Str("server", name).Str("owner", s.to.node).Msg("the server could not be restarted on its node")
		}
	})
}

// Kill implements [transport.Session].
func (s *remoteSession) Kill(cause *supervisor.Cause) { s.Abort(cause) }

const (
	// methodRestart is the request that restarts a server on its node.
	methodRestart  = "mcpvisor/restart"
	restartTimeout = 5 * time.Second
)

// OnNotice implements [transport.Session].
func (s *remoteSession) OnNotice(notify func(transport.Notice)) { s.notify = notify }

// Info implements [transport.Session].
func (s *remoteSession) Info() mcpvisor.SessionInfo {
	info := mcpvisor.SessionInfo{}
	if body := s.body.Load(); body != nil {
		info = body.Info()
	}
	info.Node = s.to.node
	return info
}

// LastReceived implements [transport.Session].
func (s *remoteSession) LastReceived() time.Time {
	if heard := s.heard.Load(); heard > 0 {
		return s.began.Add(time.Duration(heard))
	}
	return time.Time{}
}

// Request implements [transport.Session].
func (s *remoteSession) Request(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	body := s.body.Load()
	if body == nil || s.Cause() != nil {
		return nil, s.over(mcpvisor.OutcomeNotSent)
	}
	if result, ok := body.Answer(r.Method, r.Params); ok {
		return result, nil
	}
	if r.Stream != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		return nil, s.reader.Listen(ctx, r)
	}
	calls := &s.dialer.node.calls
	if !calls.begin() {
		return nil, moving(s.dialer.spec.Name, errClosed)
	}
	defer calls.done()
	if !s.begin() {
		return nil, moving(s.dialer.spec.Name, errPlaceChanged)
	}
	defer s.done()
	if r.LogLevel != "" && s.Info().Era == mcpvisor.EraModern { // no caller sets it for a session of this version
		_ = s.reader.SetLevel(ctx, r.LogLevel)
	}
	result, err := s.pass(ctx, r)
	var e *mcpvisor.Error
	switch {
	case err == nil, err == transport.ErrTask:
		s.heard.Store(int64(time.Since(s.began)))
		return result, err
	case !errors.As(err, &e):
		return nil, &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	case e.Kind == mcpvisor.ErrCanceled && ctx.Err() == nil && s.Cause() != nil:
		return nil, s.over(e.Outcome)
	}
	return nil, e
}

// errPlaceChanged is the cause of a call that comes while the session to the former place ends.
var errPlaceChanged = errors.New("another node has taken the server over")

// settle waits for answers that are on their way, as those are that the former owner of a server has
// given before it released it. If that owner cannot be reached, none come.
func (s *remoteSession) settle(ctx context.Context) {
	if err := s.client.Reachable(); err != nil && !errors.Is(err, peer.ErrLeaving) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	s.drain(ctx)
}

// settleTimeout is short, because calls of the server wait meanwhile. Answers that have begun to arrive
// by then still reach their callers: see [peer.Route.Within].
const settleTimeout = time.Second

// over is the error of a request that ends with the session.
func (s *remoteSession) over(outcome mcpvisor.Outcome) error {
	if cause := s.Cause(); cause != nil {
		return transport.DeathError(cause, outcome)
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: outcome, Cause: errNotConnected}
}

// pass makes the request on the other node.
func (s *remoteSession) pass(ctx context.Context, r transport.Request) (json.RawMessage, error) {
	settings, opts, err := s.options(r)
	if err != nil {
		return nil, err
	}
	name, ends := s.dialer.spec.Name, time.Time{}
	if !r.Began.IsZero() && r.TotalTimeout > 0 {
		ends = r.Began.Add(r.TotalTimeout)
	}
	route := s.route.With(settings).Within(s.Dead(), ends).Into(s.dialer.buffer, r.Held)
	switch r.Method {
	case "ping":
		return json.RawMessage(`{}`), nil // the connection to the node has a beat of its own
	case "tools/call":
		arguments, next := splitParams(r.Params)
		opts = append(opts, next.option(r.Caller)...)
		taken := forward.TaskRelay(r, s.Info().Era == mcpvisor.EraModern)
		settings.TaskRelay = taken
		result, err := route.CallToolRaw(ctx, mcpvisor.Qualify(name, r.Target), arguments, opts...)
		return forward.Result(taken, result, err)
	case "completion/complete":
		request, err := completionRequest(r.Params)
		if err != nil {
			return nil, err
		}
		return route.CompleteRaw(ctx, name, request, opts...)
	case "resources/read":
		_, next := splitParams(r.Params)
		return route.ReadResourceRaw(ctx, name, r.Target, append(opts, next.option(r.Caller)...)...)
	case "prompts/get":
		encoded, next := splitParams(r.Params)
		var arguments map[string]string
		if len(encoded) > 0 {
			if err := json.Unmarshal(encoded, &arguments); err != nil {
				return nil, err
			}
		}
		return route.GetPromptRaw(ctx, mcpvisor.Qualify(name, r.Target), arguments, append(opts, next.option(r.Caller)...)...)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return s.reader.Request(ctx, r, append([]facade.CallOption{relay.WithSettings(settings)}, opts...)...)
}

// completionRequest reads the params of completion/complete.
func completionRequest(params json.RawMessage) (facade.CompletionRequest, error) {
	var p struct {
		Ref struct {
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments map[string]string `json:"arguments"`
		} `json:"context"`
	}
	err := json.Unmarshal(params, &p)
	return facade.CompletionRequest{Prompt: p.Ref.Name, Template: p.Ref.URI, Argument: p.Argument.Name, Value: p.Argument.Value, Context: p.Context.Arguments}, err
}

// withCapabilities returns _meta with the client capabilities of the caller.
func withCapabilities(meta, capabilities json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if len(meta) > 0 {
		if err := json.Unmarshal(meta, &members); err != nil {
			return nil, err
		}
	}
	members[mcp.MetaKeyClientCapabilities] = capabilities
	return json.Marshal(members)
}

// continuation are the members of params that continue a call (2026-07-28).
type continuation relay.Continuation

// splitParams returns the arguments in the params of a call, which the facade has made, and what
// continues it. Both are parts of params.
func splitParams(params json.RawMessage) (arguments json.RawMessage, next continuation) {
	_ = jsonscan.EachMember(params, func(name string, value []byte) error {
		switch name {
		case "arguments":
			arguments = value
		case "inputResponses":
			next.InputResponses = value
		case "requestState":
			next.RequestState = value
		}
		return nil
	})
	return arguments, next
}

// option returns the option of a call whose result is returned although it requires input.
func (c continuation) option(caller *transport.Caller) []facade.CallOption {
	if caller == nil || !caller.ReturnInput {
		return nil
	}
	return []facade.CallOption{relay.WithRelay(relay.Continuation(c))}
}

// options are the settings of the call on the other node, and options that are applied to them: none for
// most calls.
func (s *remoteSession) options(r transport.Request) (settings *relay.CallSettings, opts []facade.CallOption, err error) {
	settings = &relay.CallSettings{Timeout: r.Timeout, Progress: r.Progress}
	if r.Timeout <= 0 {
		settings.Timeout = -1
	}
	meta := r.Meta
	settings.Handlers = s.dialer.handlersOf(r.Caller)
	if c := r.Caller; c != nil {
		if c.Capabilities != nil {
			if meta, err = withCapabilities(meta, c.Capabilities); err != nil {
				return nil, nil, err
			}
		}
		if c.Log != nil {
			opts = append(opts, facade.WithLogMessages(c.LogLevel, c.Log))
		}
		settings.WithoutTasks = c.NoTasks
	}
	if meta != nil {
		opts = append(opts, facade.WithMeta(meta))
	}
	return settings, opts, nil
}

// AnswerInputs implements [transport.Session].
func (s *remoteSession) AnswerInputs(ctx context.Context, caller *transport.Caller, requests json.RawMessage) (json.RawMessage, error) {
	return answerInputs(ctx, s.dialer.spec.Name, s.dialer.handlersOf(caller), requests)
}
