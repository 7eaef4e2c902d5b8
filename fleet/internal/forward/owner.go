package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Client is the client of the owner's node. A relay.Relay is one.
type Client interface {
	Ping(ctx context.Context, server string) error
	Subscribe(ctx context.Context, server, uri string) error
	Unsubscribe(ctx context.Context, server, uri string) error
	SetLoggingLevel(ctx context.Context, server, level string) error
	TaskOf(server, id string, opts ...facade.CallOption) (*facade.Task, error)
	Watch(ctx context.Context, kinds ...mcpvisor.EventKind) <-chan mcpvisor.Event
}

var _ Client = relay.Relay{}

const (
	// maxSubscriptions bounds the resources of one server that one node subscribes to.
	maxSubscriptions = 1000
	// maxURI bounds their URIs.
	maxURI = 8 << 10
	// endTimeout bounds the end of the subscriptions of a node that has left.
	endTimeout = 5 * time.Second
)

// Owner executes the requests of other nodes. Subscriptions and log levels belong to a node that
// listens to the notices of the server, and end with that: a server stays subscribed to a resource
// while one node wants it, and sends log messages of the lowest level that one of them has asked
// for. What the program of this node subscribes to itself is not counted: the last node that
// unsubscribes ends that, too. Safe for concurrent use.
type Owner struct {
	client Client

	mu        sync.Mutex
	servers   map[string]*served // those that are listened to; guarded by mu, with their fields
	listeners int
	stop      context.CancelFunc // ends the watch; nil without listeners
}

// served is a server that other nodes listen to.
type served struct {
	turn    chan struct{} // holds one element while its subscriptions or its level are changed
	nodes   map[string]*subscriber
	leaving int // nodes whose subscriptions are being ended
}

// subscriber is what one node wants of a server.
type subscriber struct {
	listeners map[*listener]bool
	uris      map[string]bool
	level     string // empty: whatever the server sends
}

// listener is one stream of notices.
type listener struct {
	notify func(transport.Notice)
	ended  chan struct{} // closed when the client is
}

// NewOwner makes an owner.
func NewOwner(client Client) *Owner { return &Owner{client: client, servers: map[string]*served{}} }

// levels are the severities of log messages, lowest first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func invalid(server string, why error) error {
	return &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: why}
}

var (
	errNotListening = errors.New("the node does not listen to the notices of the server, and would learn of no change")
	errTooMany      = fmt.Errorf("the node is subscribed to %d resources of the server, and no more are allowed; unsubscribe from some", maxSubscriptions)
)

// Request executes a request: see peer.ServerConfig.
func (o *Owner) Request(ctx context.Context, r peer.Request) (json.RawMessage, error) {
	var err error
	switch r.Method {
	case "ping":
		err = o.client.Ping(ctx, r.Server)
	case "resources/subscribe":
		err = o.subscribe(ctx, r)
	case "resources/unsubscribe":
		err = o.unsubscribe(ctx, r)
	case "logging/setLevel":
		err = o.setLevel(ctx, r)
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel":
		return o.task(ctx, r)
	default:
		err = &mcpvisor.Error{Server: r.Server, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, Cause: fmt.Errorf("%w: %.100q", peer.ErrUnsupported, r.Method)}
	}
	if err != nil {
		return nil, err
	}
	return json.RawMessage(`{}`), nil
}

// task asks the server about a task of an earlier call.
func (o *Owner) task(ctx context.Context, r peer.Request) (json.RawMessage, error) {
	t, err := o.client.TaskOf(r.Server, r.Target, r.Options...)
	if err != nil {
		return nil, err
	}
	switch r.Method {
	case "tasks/get":
		answer, err := relay.Ask(ctx, t)
		return answer.JSON, err
	case "tasks/result":
		return t.WaitRaw(ctx)
	case "tasks/cancel":
		return json.RawMessage(`{}`), t.Cancel(ctx)
	}
	var p struct {
		InputResponses json.RawMessage `json:"inputResponses"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, invalid(r.Server, err)
	}
	return json.RawMessage(`{}`), relay.Respond(ctx, t, p.InputResponses)
}

// enter waits for the turn to change what a node wants of a server. The caller gives it back.
func (o *Owner) enter(ctx context.Context, r peer.Request) (*served, error) {
	for {
		o.mu.Lock()
		s := o.servers[r.Server]
		o.mu.Unlock()
		if s == nil {
			return nil, invalid(r.Server, errNotListening)
		}
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, &mcpvisor.Error{Server: r.Server, Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: context.Cause(ctx)}
		}
		o.mu.Lock()
		same := o.servers[r.Server] == s
		o.mu.Unlock()
		if same {
			return s, nil
		}
		<-s.turn // for a moment it had no listener
	}
}

func (o *Owner) subscribe(ctx context.Context, r peer.Request) error {
	if len(r.Target) > maxURI {
		return invalid(r.Server, fmt.Errorf("the URI has %d bytes; %d at most are accepted", len(r.Target), maxURI))
	}
	s, err := o.enter(ctx, r)
	if err != nil {
		return err
	}
	defer func() { <-s.turn }()
	o.mu.Lock()
	n := s.nodes[r.Node]
	switch {
	case n == nil:
		err = invalid(r.Server, errNotListening)
	case len(n.uris) >= maxSubscriptions && !n.uris[r.Target]:
		err = invalid(r.Server, errTooMany)
	default:
		n.uris[r.Target] = true // before the server is asked: it may report a change at once
	}
	o.mu.Unlock()
	if err != nil {
		return err
	}
	err = o.client.Subscribe(ctx, r.Server, r.Target)
	if err != nil && !remains(err) {
		o.mu.Lock()
		delete(n.uris, r.Target)
		o.mu.Unlock()
	}
	return err
}

// remains reports whether the facade keeps a subscription although it has failed now.
func remains(err error) bool {
	return errors.Is(err, mcpvisor.ErrTimeout) || errors.Is(err, mcpvisor.ErrUnavailable) || errors.Is(err, mcpvisor.ErrCanceled) || errors.Is(err, mcpvisor.ErrCrashed)
}

func (o *Owner) unsubscribe(ctx context.Context, r peer.Request) error {
	s, err := o.enter(ctx, r)
	if err != nil {
		return err
	}
	defer func() { <-s.turn }()
	o.mu.Lock()
	last := false
	if n := s.nodes[r.Node]; n != nil && n.uris[r.Target] {
		delete(n.uris, r.Target)
		last = !s.wants(r.Target)
	}
	o.mu.Unlock()
	if !last {
		return nil
	}
	return o.client.Unsubscribe(ctx, r.Server, r.Target)
}

// wants reports whether a node is subscribed to a resource.
func (s *served) wants(uri string) bool {
	for _, n := range s.nodes {
		if n.uris[uri] {
			return true
		}
	}
	return false
}

func (o *Owner) setLevel(ctx context.Context, r peer.Request) error {
	var p struct {
		Level string `json:"level"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return invalid(r.Server, err)
	}
	if !slices.Contains(levels, p.Level) {
		return invalid(r.Server, fmt.Errorf("there is no log level %.100q", p.Level))
	}
	s, err := o.enter(ctx, r)
	if err != nil {
		return err
	}
	defer func() { <-s.turn }()
	o.mu.Lock()
	n := s.nodes[r.Node]
	if n == nil {
		o.mu.Unlock()
		return invalid(r.Server, errNotListening)
	}
	before := n.level
	n.level = p.Level
	lowest := len(levels)
	for _, other := range s.nodes {
		if at := slices.Index(levels, other.level); at >= 0 {
			lowest = min(lowest, at)
		}
	}
	o.mu.Unlock()
	if err = o.client.SetLoggingLevel(ctx, r.Server, levels[lowest]); err != nil && !remains(err) {
		o.mu.Lock()
		n.level = before
		o.mu.Unlock()
	}
	return err
}

// Notices passes the notices of a server on: see peer.ServerConfig.
func (o *Owner) Notices(ctx context.Context, r peer.Request, opened func(), notify func(transport.Notice)) error {
	l := &listener{notify: notify, ended: make(chan struct{})}
	o.join(r, l)
	defer o.leave(r, l)
	opened()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ended:
		return &mcpvisor.Error{Server: r.Server, Kind: mcpvisor.ErrClosed, Outcome: mcpvisor.OutcomeAnswered, Cause: errors.New("the client of the node is closed")}
	}
}

func (o *Owner) join(r peer.Request, l *listener) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.servers[r.Server]
	if s == nil {
		s = &served{turn: make(chan struct{}, 1), nodes: map[string]*subscriber{}}
		o.servers[r.Server] = s
	}
	n := s.nodes[r.Node]
	if n == nil {
		n = &subscriber{listeners: map[*listener]bool{}, uris: map[string]bool{}}
		s.nodes[r.Node] = n
	}
	n.listeners[l] = true
	if o.listeners++; o.listeners == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		o.stop = cancel
		go o.watch(ctx, o.client.Watch(ctx, mcpvisor.EventResourceUpdated, mcpvisor.EventLog))
	}
}

// leave forgets a listener, and ends the subscriptions of its node with its last one.
func (o *Owner) leave(r peer.Request, l *listener) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listeners--; o.listeners == 0 {
		o.stop()
	}
	s := o.servers[r.Server] // it is there as long as a node listens or leaves
	n := s.nodes[r.Node]
	if delete(n.listeners, l); len(n.listeners) > 0 {
		return
	}
	delete(s.nodes, r.Node) // if it listens again, it subscribes again
	if len(n.uris) > 0 {
		s.leaving++
		o.mu.Unlock()
		o.endSubscriptions(r.Server, s, n)
		o.mu.Lock()
		s.leaving--
	}
	if len(s.nodes) == 0 && s.leaving == 0 {
		delete(o.servers, r.Server)
	}
}

// endSubscriptions ends those of a node that has left which no other node wants.
func (o *Owner) endSubscriptions(name string, s *served, left *subscriber) {
	s.turn <- struct{}{} // the goroutine that has it is bounded by the timeouts of its request
	defer func() { <-s.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	for uri := range left.uris {
		o.mu.Lock()
		wanted := s.wants(uri)
		o.mu.Unlock()
		if !wanted {
			_ = o.client.Unsubscribe(ctx, name, uri) // the subscription has ended in any case
		}
	}
}

// watch passes events on until the last listener leaves, or the client is closed.
func (o *Owner) watch(ctx context.Context, events <-chan mcpvisor.Event) {
	for e := range events {
		o.mu.Lock()
		switch s := o.servers[e.Server]; {
		case ctx.Err() != nil:
		case e.Kind == mcpvisor.EventMissed:
			for _, s := range o.servers {
				s.notify(e)
			}
		case s != nil:
			s.notify(e)
		}
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() != nil { // the last listener has left, or another watch has begun
		return
	}
	for _, s := range o.servers {
		for _, n := range s.nodes {
			for l := range n.listeners {
				close(l.ended)
			}
		}
	}
}

// notify tells the nodes what concerns them. The mutex of the owner is held.
func (s *served) notify(e mcpvisor.Event) {
	for _, n := range s.nodes {
		if notice, ok := n.noticeOf(e); ok {
			for l := range n.listeners {
				l.notify(notice)
			}
		}
	}
}

// noticeOf returns what a node is told of an event; ok is false for nothing.
func (n *subscriber) noticeOf(e mcpvisor.Event) (notice transport.Notice, ok bool) {
	if e.Kind == mcpvisor.EventResourceUpdated { // a part of a resource has a URI of its own, so that the URIs are not compared
		return transport.Notice{Kind: transport.ResourceUpdated, URI: e.URI}, len(n.uris) > 0
	}
	if e.Kind == mcpvisor.EventLog {
		wanted := n.level == "" || e.Log != nil && slices.Index(levels, e.Log.Level) >= slices.Index(levels, n.level)
		return transport.Notice{Kind: transport.LogMessage, Log: e.Log}, wanted && e.Log != nil
	}
	return transport.Notice{Kind: transport.Gap}, true // EventMissed
}
