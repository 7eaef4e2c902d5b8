package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/transport"
)

// reopen is the wait before a stream that ended by itself is opened again.
var reopen = backoff.Backoff{First: 100 * time.Millisecond, Max: 30 * time.Second}

const (
	// stableAfter is how long a stream must last for the waits to begin again.
	stableAfter = 10 * time.Second
	// pollInterval is how often the lists are read while the server accepts no
	// stream about them.
	pollInterval = 10 * time.Minute
	// CancelGrace bounds the wait for a server that confirms the end of a stream. On a pipe
	// the confirmation is the answer to subscriptions/listen. Servers of the go-sdk send it
	// at once. Others never do, as a cancelled request should get no response (2026-07-28,
	// cancellation): for these the whole wait passes before a new stream about the same
	// resource is opened.
	CancelGrace = time.Second
)

// filter says what a stream is about, as the protocol writes it: params.notifications
// of subscriptions/listen (2026-07-28, subscriptions).
type filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

func (f filter) isEmpty() bool {
	return !f.ToolsListChanged && !f.PromptsListChanged && !f.ResourcesListChanged && len(f.ResourceSubscriptions) == 0
}

// stream is one subscriptions/listen request. Its goroutine sends it again and again
// until it is stopped, the session ends, or the server rejects it for good.
type stream struct {
	requested []string // the resources it was opened for; none: it is about the lists
	stop      context.CancelFunc
	cancelled chan struct{} // closed when the cancellation precedes all that is sent later
	ended     chan struct{} // closed when its goroutine has ended
	// ack holds the latest result: an acknowledgement or a failure.
	ack chan ackResult

	// uris are the resources that it serves. Owned by the goroutine that runs
	// [Subscriber.Reconcile].
	uris []string
	// rejected: the server rejected it for good. Written by the goroutine of the
	// stream before it closes ended, and read after that.
	rejected bool

	// Guarded by Listener.mu.
	id        int64 // of its request
	acked     bool  // the server has acknowledged the request that is open
	everAcked bool  // it has acknowledged one before
	// gap: notifications may have been missed since the last acknowledgement; the
	// next one makes up for them.
	gap bool
}

// ackResult is how one attempt to open a stream ended.
type ackResult struct {
	honored []string // the resources that the server watches
	err     error
	final   bool // the server rejected the stream, which has ended
}

// openStream starts a stream. An empty filter makes one that has ended already.
func (l *Listener) openStream(about filter, uris []string, gap bool) *stream {
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{requested: uris, uris: uris, stop: stop,
		cancelled: make(chan struct{}), ended: make(chan struct{}), ack: make(chan ackResult, 1), gap: gap}
	params, err := json.Marshal(map[string]any{"notifications": about})
	if about.isEmpty() || err != nil {
		stop()
		s.rejected = true
		close(s.ended)
		return s
	}
	l.config.Go(func() {
		defer close(s.ended)
		defer stop()
		l.run(ctx, s, params)
	})
	return s
}

func (s *stream) isOpen() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// isRejected reports whether the server rejected the stream for good.
func (s *stream) isRejected() bool { return !s.isOpen() && s.rejected }

// run holds the stream open until ctx ends, the session dies, or the server rejects
// it for good.
func (l *Listener) run(ctx context.Context, s *stream, params json.RawMessage) {
	request := transport.Request{Method: "subscriptions/listen", Params: params,
		Stream: &transport.Stream{Sent: func(id int64) { l.onSent(s, id) }, CancelGrace: CancelGrace,
			Cancelled: func() { close(s.cancelled) }}} // once: run ends after the request whose context has ended
	polled := time.Now()
	for pause := reopen.First; ; pause = reopen.Next(pause) {
		opened := time.Now()
		_, err := l.config.Session.Request(ctx, request)
		acked, everAcked := l.onEnd(s)
		if ctx.Err() != nil || l.config.Session.Cause() != nil {
			return
		}
		if err == nil && !acked {
			err = errors.New("the server ended the stream without acknowledging it")
		}
		if s.rejected = !everAcked && s.isRejectedBy(err); s.rejected && len(s.requested) == 0 {
			l.config.Logger.Warn().Str("server", l.config.Server).Err(err).
				Msg("the server rejects streams about list changes; Refresh reads its lists")
		}
		if err != nil {
			l.report(s, ackResult{err: err, final: s.rejected})
		}
		if s.rejected {
			return
		}
		if time.Since(opened) >= stableAfter {
			pause = reopen.First
		}
		if len(s.requested) == 0 && time.Since(polled) >= pollInterval {
			polled = time.Now()
			l.config.ListsChanged(catalog.AllLists)
		}
		_ = backoff.SleepUntil(ctx, l.config.Session.Dead(), pause) // the next request fails if either has ended
	}
}

// isRejectedBy reports whether an error rejects, for good, a stream that was never
// acknowledged. For a stream about resources any error answer does: the owner of the
// subscriber decides about a retry. For the lists only an unsupported method does.
func (s *stream) isRejectedBy(err error) bool {
	var e *mcpvisor.Error
	return transport.Unsupported(err) || len(s.requested) > 0 && errors.As(err, &e) && e.Kind == mcpvisor.ErrRPC
}

// onSent records the id of a stream's request, by which its acknowledgement is found.
func (l *Listener) onSent(s *stream, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s.id)
	l.open[id], s.id = s, id
}

// onEnd records that the request of a stream has ended.
func (l *Listener) onEnd(s *stream) (acked, everAcked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s.id)
	acked, s.acked, s.gap = s.acked, false, true
	return acked, s.everAcked
}

func (l *Listener) isAcked(s *stream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.acked
}

func (l *Listener) report(s *stream, ack ackResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.reportLocked(ack)
}

// reportLocked replaces the result that waits. Call it with Listener.mu held.
func (s *stream) reportLocked(ack ackResult) {
	ack.err = transport.KeptError(ack.err)
	select {
	case <-s.ack:
	default:
	}
	s.ack <- ack
}

// onAck records that the server accepted a listen stream
// (notifications/subscriptions/acknowledged). After a gap the lists count as changed,
// and the honored resources as updated, and no caller waits: if it leaves out resources, the
// next run reports that. What the stream did not ask for is ignored.
func (l *Listener) onAck(n transport.Notice) {
	l.mu.Lock()
	s := l.open[n.Stream]
	if n.Stream == 0 {
		s = l.guessLocked(n.Honored)
	}
	if s == nil || s.acked {
		l.mu.Unlock()
		return
	}
	gap, lists, honored := s.gap, len(s.requested) == 0, s.requestedAmong(n.Honored)
	s.acked, s.everAcked, s.gap = true, true, false
	s.reportLocked(ackResult{honored: honored})
	l.mu.Unlock()
	switch {
	case gap && lists:
		l.config.ListsChanged(catalog.AllLists)
	case gap:
		l.config.ResourcesUpdated(honored)
		if len(honored) < len(s.requested) {
			l.config.LeftOut()
		}
	}
}

// requestedAmong returns those of the URIs for which the stream was opened, each once.
func (s *stream) requestedAmong(uris []string) (requested []string) {
	if len(s.requested) == 0 || len(uris) == 0 {
		return nil
	}
	named := make(map[string]bool, len(uris))
	for _, uri := range uris {
		named[uri] = true
	}
	for _, uri := range s.requested {
		if named[uri] {
			requested = append(requested, uri)
		}
	}
	return requested
}

// guessLocked finds the stream of an acknowledgement that does not name one: the
// oldest that was requested for all honored resources. Call it with mu held.
func (l *Listener) guessLocked(honored []string) (found *stream) {
	for _, s := range l.open {
		if s.acked || found != nil && found.id < s.id || len(honored) > 0 != (len(s.requested) > 0) || len(honored) > len(s.requested) {
			continue
		}
		if !slices.ContainsFunc(honored, func(uri string) bool { return !slices.Contains(s.requested, uri) }) {
			found = s
		}
	}
	return found
}
