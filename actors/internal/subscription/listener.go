package subscription

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

const (
	// StartAckTimeout bounds the wait for acknowledgements at the start of a session, all
	// streams together. Then the lists are read. A later acknowledgement makes up for what
	// may have been missed, so a server that never sends one delays its start by no more.
	StartAckTimeout = 250 * time.Millisecond
	// AckTimeout bounds the wait for the acknowledgement of a listen stream that a caller
	// waits for.
	AckTimeout = 3 * time.Second
	// MaxResourceStreams bounds the streams about resources: over HTTP each one
	// holds a connection, or a part of one.
	MaxResourceStreams = 16
)

// Listener holds the open subscriptions/listen requests of one session
// (2026-07-28, subscriptions): one stream about the lists, and some about resources.
// A new resource gets a stream of its own, so that its rejection costs no other
// resource anything. When there are too many streams, small ones are merged.
//
// A resource is never in two streams at once, and a stream is replaced only after it
// has ended. Servers made with the go-sdk need both on a pipe: they keep one
// listener for each resource, and forget the listener of the lists when any stream
// ends, even a rejected one. There the stream of the lists is opened again after
// that (see listsStream).
//
// On a pipe the end of a stream is known from the server's answer, which many servers
// leave out (see CancelGrace). So only a new stream about the same resource waits for it,
// and no caller of Unsubscribe.
type Listener struct {
	config  *Config
	results *results

	// Owned by the goroutine that runs [Subscriber.Reconcile].
	resources   []*stream // each about its own resources
	ending      []*stream // stopped, and not known to have ended
	streamEnded bool      // a stream was stopped or rejected in this run

	mu    sync.Mutex
	lists listsStream // guarded by mu
	// open are the streams by the id of their request. Guarded by mu, as are those fields
	// of a stream that the goroutines of the streams and the reader of the session share;
	// the comment of stream names them.
	open map[int64]*stream
}

func newListener(config *Config, results *results) *Listener {
	return &Listener{config: config, results: results, open: map[int64]*stream{}}
}

// listen opens and ends streams until they are about the given resources. It calls
// stopped when those about other resources are cancelled. It returns when the server has
// acknowledged the new ones, or their time is over. gap: changes of the resources without a
// stream may have been missed.
func (l *Listener) listen(ctx context.Context, uris []string, gap bool, stopped func()) {
	first := l.aboutLists() == nil
	if first {
		l.openLists(false)
	}
	fresh := l.unheld(uris)
	again := l.endOutdated(uris, len(fresh) > 0)
	stopped()
	l.openResources(ctx, again, true)
	l.openResources(ctx, fresh, gap)
	l.afterEnds(ctx, first)
	if first {
		l.awaitAck(ctx, l.aboutLists())
	}
	for _, s := range l.resources {
		l.results.retryNeeded = l.results.retryNeeded || !l.isAcked(s)
	}
}

// takeAcks applies what the server has acknowledged since the last run, when no caller waited
// for it: it may have left out resources of a stream. Failures stay for awaitAcks.
func (l *Listener) takeAcks() {
	l.resources = slices.DeleteFunc(l.resources, func(s *stream) bool {
		l.mu.Lock()
		ack, taken := ackResult{}, false
		select {
		case ack = <-s.ack:
			if taken = ack.err == nil; !taken {
				s.ack <- ack // there is room: who reports holds mu
			}
		default:
		}
		l.mu.Unlock()
		return taken && !l.keepHonored(s, ack.honored)
	})
}

// afterEnds sees to the stream about the lists if others have ended in this run.
func (l *Listener) afterEnds(ctx context.Context, starting bool) {
	if l.streamEnded && l.config.SharedPipe {
		l.reopenLists(ctx, starting)
	}
	l.streamEnded = false
}

// unheld are the resources that no stream is about and the server has not rejected.
func (l *Listener) unheld(uris []string) (fresh []string) {
	for _, uri := range uris {
		held := slices.ContainsFunc(l.resources, func(s *stream) bool { return slices.Contains(s.uris, uri) })
		if !held && l.results.rejected[uri] == nil {
			fresh = append(fresh, uri)
		}
	}
	return fresh
}

// endOutdated stops the streams that have ended by themselves or are about a resource
// that is no longer desired. If a stream will be added and there are too many, it
// also stops the smaller half of them. It returns the desired resources of the stopped
// streams, which need a new one.
func (l *Listener) endOutdated(uris []string, adding bool) (again []string) {
	var over []*stream
	kept := slices.DeleteFunc(slices.Clone(l.resources), func(s *stream) bool {
		outdated := !s.isOpen() || slices.ContainsFunc(s.uris, func(uri string) bool { return !slices.Contains(uris, uri) })
		if outdated {
			over = append(over, s)
		}
		return outdated
	})
	if adding && len(kept) >= MaxResourceStreams {
		slices.SortStableFunc(kept, func(a, b *stream) int { return len(a.uris) - len(b.uris) })
		half := len(kept)/2 + 1
		over, kept = append(over, kept[:half]...), kept[half:]
	}
	for _, s := range over {
		for _, uri := range s.uris {
			if slices.Contains(uris, uri) {
				again = append(again, uri)
			}
		}
	}
	l.resources = kept
	l.stop(over...)
	return again
}

// stop cancels streams, and returns when the cancellations precede whatever the host sends
// next. It does not wait for the server.
func (l *Listener) stop(streams ...*stream) {
	for _, s := range streams {
		s.stop()
	}
	for _, s := range streams {
		select {
		case <-s.cancelled:
		case <-s.ended:
		}
	}
	if len(streams) > 0 {
		l.ending = append(slices.DeleteFunc(l.ending, func(s *stream) bool { return !s.isOpen() }), streams...)
		l.streamEnded = true
	}
}

// awaitEnds waits for the end of the stopped streams about any of the resources.
func (l *Listener) awaitEnds(uris []string) {
	for _, s := range l.ending {
		if slices.ContainsFunc(s.requested, func(uri string) bool { return slices.Contains(uris, uri) }) {
			<-s.ended
		}
	}
}

// openResources opens a stream about resources. If the server rejects it because of some
// of them, bisection finds the rejected ones.
func (l *Listener) openResources(ctx context.Context, uris []string, gap bool) {
	if len(uris) == 0 || l.config.Session.Cause() != nil {
		return
	}
	if ctx.Err() != nil {
		for _, uri := range uris {
			l.results.fail(uri, unacknowledged(uri))
		}
		return
	}
	l.awaitEnds(uris)
	s := l.openStream(filter{ResourceSubscriptions: uris}, uris, gap)
	ack := l.awaitAck(ctx, s)
	switch {
	case ack.final:
		<-s.ended
		if l.streamEnded = true; len(uris) > 1 {
			half := len(uris) / 2
			l.openResources(ctx, uris[:half], gap)
			l.openResources(ctx, uris[half:], gap)
			return
		}
		l.results.fail(uris[0], fmt.Errorf("the server rejected subscriptions/listen for %.200s: %w", uris[0], ack.err))
		return
	case ack.err != nil: // the stream keeps trying
		for _, uri := range uris {
			l.results.errs[uri] = ack.err
		}
	default:
		if !l.keepHonored(s, ack.honored) {
			return
		}
	}
	l.resources = append(l.resources, s)
}

// keepHonored records which of its resources the server watches on a stream. It stops a
// stream without any, and reports whether the stream is kept.
func (l *Listener) keepHonored(s *stream, honored []string) bool {
	requested := s.uris
	s.uris = nil
	for _, uri := range requested {
		if slices.Contains(honored, uri) {
			s.uris = append(s.uris, uri)
			continue
		}
		l.results.fail(uri, &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server does not watch %.200s: its acknowledgement leaves the resource out", uri)})
	}
	if len(s.uris) == 0 {
		l.stop(s)
		return false
	}
	return true
}

// awaitAcks waits until every stream about a requested resource has been
// acknowledged or has failed.
func (l *Listener) awaitAcks(ctx context.Context, requests []Request) {
	l.resources = slices.DeleteFunc(l.resources, func(s *stream) bool {
		if l.isAcked(s) || !slices.ContainsFunc(requests, func(r Request) bool {
			return slices.Contains(s.uris, r.URI) && l.results.errs[r.URI] == nil
		}) {
			return false
		}
		ack := l.awaitAck(ctx, s)
		if ack.err == nil {
			return !l.keepHonored(s, ack.honored)
		}
		for _, uri := range s.uris {
			l.results.errs[uri] = ack.err
		}
		return false
	})
	l.afterEnds(ctx, false)
}

// awaitAck waits for the latest result of a stream: what the server honors, or why
// it does not.
func (l *Listener) awaitAck(ctx context.Context, s *stream) ackResult {
	late := make(chan struct{})
	defer overdue.AfterFunc(AckTimeout, func() { close(late) }).Stop()
	select {
	case ack := <-s.ack:
		return ack
	case <-l.config.Session.Dead():
		return ackResult{err: errors.New("the session has ended")}
	case <-s.ended:
		select {
		case ack := <-s.ack:
			return ack
		default:
			return ackResult{} // the stream is about nothing
		}
	case <-late:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case ack := <-s.ack: // just in time
		return ack
	default:
	}
	s.gap = s.gap || !s.acked // changes until the acknowledgement may be missed
	return ackResult{err: unacknowledged(s.uris...)}
}

func unacknowledged(uris ...string) error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Outcome: mcpvisor.OutcomeUnknown,
		Cause: fmt.Errorf("the server did not acknowledge the subscription to %.200q in time; it is requested again", uris)}
}
