package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// ackWait bounds the wait for the word that a stream of notifications stands.
const ackWait = 3 * time.Second

// A stream of notifications that ends by itself is opened again after 0.1, 0.2,
// … 30 s; one that lasted for long enough begins anew.
const (
	firstReopen, lastReopen = 100 * time.Millisecond, 30 * time.Second
	longEnough              = 10 * time.Second
)

// streamed is what a stream of notifications is about, as the protocol writes it
// (2026-07-28, subscriptions).
type streamed struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

// listener tells one incarnation what the host wants to hear. Until 2025-11-25
// that is a request for each resource and one for the log level; since
// 2026-07-28 it is one long request, subscriptions/listen, for everything, and
// the log level goes with every request. It works in goroutines of the port, one
// at a time.
type listener struct {
	acks chan []string // what the server honors, as it says so
	// gap: there was no stream for a while, and the next word that one stands ends
	// that.
	gap atomic.Bool

	mu      sync.Mutex
	applied map[string]bool
	level   string
	// stop ends the stream that is open; nil if none is. ended is closed when it
	// has ended.
	stop  context.CancelFunc
	ended chan struct{}
	wants streamed
}

// apply makes the server know the wishes, as far as it does not. The error
// speaks of those that it refused; they stay wished.
func (p *port) apply(ctx context.Context) error {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	level, uris := p.rt.wishes(p.inc.gen).now()
	p.inc.level.Store(&level)
	if p.inc.session.Info().Era == messages.EraModern {
		return p.listen(ctx, uris)
	}
	var errs []error
	if level != p.level && level != "" {
		params, _ := json.Marshal(map[string]string{"level": level})
		if err := p.request(ctx, "logging/setLevel", "", params); err != nil {
			errs = append(errs, fmt.Errorf("the log level %q is refused: %w", level, err))
		} else {
			p.level = level
		}
	}
	if p.applied == nil {
		p.applied = map[string]bool{}
	}
	ask := func(method, uri string) bool {
		params, _ := json.Marshal(map[string]string{"uri": uri})
		err := p.request(ctx, method, uri, params)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %.200s is refused: %w", method, uri, err))
		}
		return err == nil
	}
	for _, uri := range uris {
		if !p.applied[uri] && ask("resources/subscribe", uri) {
			p.applied[uri] = true
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(p.applied)) {
		if !slices.Contains(uris, uri) {
			ask("resources/unsubscribe", uri)
			delete(p.applied, uri)
		}
	}
	return errors.Join(errs...)
}

func (p *port) request(ctx context.Context, method, target string, params json.RawMessage) error {
	idle, hardMax := callClocks(p.inc.spec.Timeouts, 0)
	_, err := p.inc.session.Request(ctx, transport.Request{Method: method, Target: target, Params: params, Timeout: idle, HardMax: hardMax})
	return err
}

// listen sees to it that the stream of notifications is open and about what is
// wanted. A change of that replaces the stream, and what changed in between is
// found by looking. It returns when the server has said what it honors, or when
// it is clear that it will not.
func (p *port) listen(ctx context.Context, uris []string) error {
	wants := streamed{ResourceSubscriptions: uris}
	if caps := p.inc.session.Info().Capabilities; caps != nil {
		wants.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
		wants.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
		wants.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
	}
	lists := wants.ToolsListChanged || wants.PromptsListChanged || wants.ResourcesListChanged
	if p.stop != nil && slices.Equal(uris, p.wants.ResourceSubscriptions) {
		return nil
	}
	again := p.stop != nil
	p.silence()
	if !lists && len(uris) == 0 {
		return nil
	}
	p.wants = wants
	select {
	case <-p.acks: // of a stream before
	default:
	}
	streaming, stop := context.WithCancel(context.Background())
	p.stop, p.ended = stop, make(chan struct{})
	ended, refused := p.ended, make(chan error, 1)
	p.rt.goSafe("port", func() {
		defer close(ended)
		p.keepListening(streaming, wants, refused)
	}, nil)
	if again {
		p.outdated(messages.AllLists)
	}
	t := time.NewTimer(ackWait)
	defer t.Stop()
	select {
	case honored := <-p.acks:
		for _, uri := range uris {
			if !slices.Contains(honored, uri) {
				return fmt.Errorf("the server does not watch %.200s", uri)
			}
		}
		return nil
	case err := <-refused:
		return fmt.Errorf("subscriptions/listen is refused: %w", err)
	case <-t.C:
		if len(uris) == 0 {
			return nil
		}
		return errors.New("the server did not confirm the subscriptions in time")
	case <-p.inc.session.Dead():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silence ends the stream that is open, and waits for its end.
func (p *port) silence() {
	if p.stop != nil {
		p.stop()
		<-p.ended
		p.stop = nil
	}
}

// keepListening holds the stream open until ctx ends, the session dies, or the
// server refuses. After each gap the lists are looked at.
func (p *port) keepListening(ctx context.Context, wants streamed, refused chan<- error) {
	params, err := json.Marshal(map[string]any{"notifications": wants})
	if err != nil {
		refused <- err
		return
	}
	for pause := firstReopen; ; pause = min(2*pause, lastReopen) {
		opened := time.Now()
		_, err := p.inc.session.Request(ctx, transport.Request{Method: "subscriptions/listen", Params: params})
		if ctx.Err() != nil || p.inc.session.Cause() != nil {
			return
		}
		var e *messages.Error
		if errors.As(err, &e) && e.Kind == messages.KindRPC {
			p.rt.opts.Logger.Warn().Str("server", p.inc.server).Err(err).
				Msg("the server refuses to announce its changes; Refresh reads its lists")
			refused <- err
			return
		}
		if time.Since(opened) >= longEnough {
			pause = firstReopen
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
			p.gap.Store(true)
			p.outdated(messages.AllLists)
		case <-ctx.Done():
		case <-p.inc.session.Dead():
		}
		t.Stop()
	}
}

// wished carries the wishes of the host to the server, and answers.
func (p *port) wished(reply chan<- error) {
	p.rt.goSafe("port", func() {
		ctx, cancel := bounded(p.inc.spec.Timeouts.Call)
		defer cancel()
		err := p.apply(ctx)
		p.answer([]chan<- error{reply}, err)
	}, func(v any) { p.answer([]chan<- error{reply}, fmt.Errorf("internal error: %v", v)) })
}

// Subscribe asks a server to tell about updates of a resource, or not to any
// more: this incarnation, and each one after it. A server that is not ready is
// told when it is.
func (rt *Runtime) Subscribe(ctx context.Context, v *View, uri string, on bool) error {
	w := rt.wishes(v.Gen)
	fresh := w.subscribe(uri, on)
	if v.State != supervisor.Ready {
		return nil
	}
	err := rt.ask(ctx, v, func(reply chan<- error) any { return &wish{reply: reply} })
	var e *messages.Error
	if errors.As(err, &e) && e.Kind == messages.KindUnavailable {
		return nil // the next incarnation is told
	}
	if err != nil && fresh && on {
		w.subscribe(uri, false)
	}
	return err
}

// SetLogLevel asks a server for log messages of that severity or above.
func (rt *Runtime) SetLogLevel(ctx context.Context, v *View, level string) error {
	rt.wishes(v.Gen).setLevel(level)
	if v.State != supervisor.Ready {
		return nil
	}
	err := rt.ask(ctx, v, func(reply chan<- error) any { return &wish{reply: reply} })
	var e *messages.Error
	if errors.As(err, &e) && e.Kind == messages.KindUnavailable {
		return nil
	}
	return err
}
