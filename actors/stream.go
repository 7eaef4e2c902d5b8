package actors

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	// A stream of notifications that ends by itself is opened again after 0.1, 0.2,
	// … 30 s; one that lasted for long enough begins anew.
	firstReopen, lastReopen = 100 * time.Millisecond, 30 * time.Second
	longEnough              = 10 * time.Second
	// lookWithout is how often the lists are looked at while the server announces
	// nothing although it should.
	lookWithout = 10 * time.Minute
	// cancelGrace bounds the wait for a server that confirms the end of a stream.
	cancelGrace = time.Second
)

// subscriptionFilter is what a stream of notifications is about, as the protocol writes it
// (2026-07-28, subscriptions).
type subscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

func (w subscriptionFilter) isNothing() bool {
	return !w.ToolsListChanged && !w.PromptsListChanged && !w.ResourcesListChanged && len(w.ResourceSubscriptions) == 0
}

// listenStream is one subscriptions/listen, opened again and again until it is stopped
// or refused for good.
type listenStream struct {
	uris  []string // that it is of use for; the teller's
	about []string // that it was asked for; none: it is about lists
	stop  context.CancelFunc
	ended chan struct{}
	// word is the latest word on it: of the server's, or of a failure.
	word    chan ackResult
	refused bool // for good; known when it has ended

	// The rest is guarded by the listener.
	id     int64 // of its request
	stands bool  // the server has said so
	stood  bool  // once
	// gap: there was no stream for a while, and the word that one stands ends that.
	gap bool
}

type ackResult struct {
	honored []string
	err     error
	final   bool // and the stream ends
}

// openStream begins to listen. A stream about nothing has ended already.
func (p *port) openStream(wants subscriptionFilter, uris []string, gap bool) *listenStream {
	ctx, stop := context.WithCancel(context.Background())
	s := &listenStream{uris: uris, about: uris, stop: stop, ended: make(chan struct{}), word: make(chan ackResult, 1), gap: gap}
	if wants.isNothing() {
		stop()
		s.refused = true
		close(s.ended)
		return s
	}
	params, _ := json.Marshal(map[string]any{"notifications": wants})
	p.rt.goSafe("port", func() {
		defer close(s.ended)
		defer stop()
		p.keepListening(ctx, s, params)
	}, nil)
	return s
}

func (s *listenStream) isOpen() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// final reports whether the server has refused it for good.
func (s *listenStream) final() bool { return !s.isOpen() && s.refused }

// keepListening holds the stream open until ctx ends, the session dies, or the
// server refuses.
func (p *port) keepListening(ctx context.Context, s *listenStream, params json.RawMessage) {
	request := transport.Request{Method: "subscriptions/listen", Params: params,
		Stream: &transport.Stream{Sent: func(id int64) { p.sent(s, id) }, Farewell: cancelGrace}}
	looked := time.Now()
	for pause := firstReopen; ; pause = min(2*pause, lastReopen) {
		opened := time.Now()
		_, err := p.inc.session.Request(ctx, request)
		stood, once := p.lost(s)
		if ctx.Err() != nil || p.inc.session.Cause() != nil {
			return
		}
		if err == nil && !stood {
			err = errors.New("the server has ended the stream")
		}
		if s.refused = !once && s.refusedBy(err); s.refused && len(s.about) == 0 {
			p.rt.opts.Logger.Warn().Str("server", p.inc.server).Err(err).
				Msg("the server refuses to announce its changes; Refresh reads its lists")
		}
		if err != nil {
			p.say(s, ackResult{err: err, final: s.refused})
		}
		if s.refused {
			return
		}
		if time.Since(opened) >= longEnough {
			pause = firstReopen
		}
		if len(s.about) == 0 && time.Since(looked) >= lookWithout {
			looked = time.Now()
			p.outdated(catalog.AllLists)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-p.inc.session.Dead():
		}
		t.Stop()
	}
}

// refusedBy reports whether an error is the last word on a stream that never
// stood. Of resources any error of the server's is: the port asks again.
func (s *listenStream) refusedBy(err error) bool {
	var e *mcpvisor.Error
	return transport.Unsupported(err) || len(s.about) > 0 && errors.As(err, &e) && e.Kind == mcpvisor.KindRPC
}

// sent notes the request of a stream, so that its word is known.
func (p *port) sent(s *listenStream, id int64) {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	if p.opened == nil {
		p.opened = map[int64]*listenStream{}
	}
	delete(p.opened, s.id)
	p.opened[id], s.id = s, id
}

// lost notes that the request of a stream has ended.
func (p *port) lost(s *listenStream) (stood, once bool) {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	delete(p.opened, s.id)
	stood, s.stands, s.gap = s.stands, false, true
	return stood, s.stood
}

func (p *port) stands(s *listenStream) bool {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	return s.stands
}

func (p *port) say(s *listenStream, w ackResult) {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	s.sayLocked(w)
}

func (s *listenStream) sayLocked(w ackResult) {
	select {
	case <-s.word:
	default:
	}
	s.word <- w
}

// acknowledged takes the word that a stream stands. After a gap the lists are
// looked at, and what is watched counts as updated.
func (p *port) acknowledged(n transport.Notice) {
	p.listener.mu.Lock()
	s := p.opened[n.Stream]
	if n.Stream == 0 {
		s = p.guessLocked(n.Honored)
	}
	if s == nil || s.stands {
		p.listener.mu.Unlock()
		return
	}
	gap, lists := s.gap, len(s.about) == 0
	s.stands, s.stood, s.gap = true, true, false
	s.sayLocked(ackResult{honored: n.Honored})
	p.listener.mu.Unlock()
	switch {
	case gap && lists:
		p.outdated(catalog.AllLists)
	case gap:
		p.updated(n.Honored)
	}
}

// guessLocked finds the stream of a word that does not name it.
func (p *port) guessLocked(honored []string) (found *listenStream) {
	for _, s := range p.opened {
		fits := len(honored) > 0 == (len(s.about) > 0) &&
			!slices.ContainsFunc(honored, func(uri string) bool { return !slices.Contains(s.about, uri) })
		if fits && !s.stands && (found == nil || s.id < found.id) {
			found = s
		}
	}
	return found
}
