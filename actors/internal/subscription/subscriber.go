package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Config is what a [Subscriber] needs from the owner of its session. All fields
// are required and do not change afterwards.
type Config struct {
	Session transport.Session
	Desired *Desired
	// Server and Epoch appear in log lines.
	Server string
	Epoch  uint64
	Logger *zerolog.Logger
	// CallTimeout and CallTotal bound each request; 0 means unbounded.
	CallTimeout, CallTotal time.Duration
	// SharedPipe: all streams of the session share one pipe (stdio), and with it
	// what the server remembers about its listeners.
	SharedPipe bool
	// Go runs a function in a goroutine that recovers from panics.
	Go func(func())
	// ListsChanged and ResourcesUpdated are called when a notification may have
	// been missed. They must not block.
	ListsChanged     func(catalog.Lists)
	ResourcesUpdated func(uris []string)
	// LeftOut is called when a late or repeated acknowledgement leaves out resources. A
	// run is due. It must not block.
	LeftOut func()
	// WrapError makes the error that a waiting caller receives; nil stays nil.
	WrapError func(error) error
}

// Request is one call of the host that waits for the answer of the server: about a
// resource if URI is set, about the log level otherwise. The reply is nil when the
// server has accepted just that.
type Request struct {
	URI   string
	On    bool
	Level string
	Reply chan<- error
}

// Result is the outcome of one [Subscriber.Reconcile].
type Result struct {
	// Version is the version of the desired state that was applied.
	Version uint64
	// RetryNeeded: something failed or was rejected, and may succeed later.
	RetryNeeded bool
}

// Subscriber applies the desired state to one session. Reconcile must not run twice
// at a time; the other methods are safe for concurrent use.
type Subscriber struct {
	config   Config
	listener *Listener

	// Owned by the goroutine that runs Reconcile.
	level         string // the level that the server accepted last
	rejectedLevel string // the level that it rejected, until a retry
	levelErr      error  // why
	results       results

	mu sync.Mutex
	// watched are the resources that were subscribed one by one (until 2025-11-25).
	// Guarded by mu.
	watched map[string]bool
}

// results are the answers of the server by resource. Owned by the goroutine that
// runs Reconcile; [Listener] adds to them.
type results struct {
	// errs are the failures of the current run. The key "" is the log level.
	errs map[string]error
	// rejected are the resources that the server rejected. They are not sent again
	// before a retry, or before a caller asks for them.
	rejected map[string]error
	// unsubscribeErrs are rejected unsubscribes that no caller has received yet. The
	// desired state changes before the request of the caller arrives, so an earlier
	// run may have carried it out already.
	unsubscribeErrs map[string]error
	// retryNeeded: a failure of this run was not a clear answer.
	retryNeeded bool
}

// fail records why a resource, or the log level, was not applied.
func (r *results) fail(uri string, err error) {
	err = transport.KeptError(err)
	r.errs[uri] = err
	if uri != "" && isRejection(err) {
		r.rejected[uri] = err
	}
	r.retryNeeded = r.retryNeeded || !isRejection(err)
}

// isRejection reports whether the server itself answered with an error.
func isRejection(err error) bool {
	var e *mcpvisor.Error
	return errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeAnswered && e.Kind != mcpvisor.ErrUnavailable
}

// NewSubscriber makes the subscriber of a session to which nothing was applied yet.
func NewSubscriber(config Config) *Subscriber {
	s := &Subscriber{config: config,
		results: results{rejected: map[string]error{}, unsubscribeErrs: map[string]error{}}}
	s.listener = newListener(&s.config, &s.results)
	return s
}

// OnAck handles the acknowledgement of a listen stream. The goroutine that reads
// from the server calls it, so it does not block.
func (s *Subscriber) OnAck(n transport.Notice) { s.listener.onAck(n) }

// OtherStreamEnded opens the stream about the lists again, if the server may have forgotten
// it because a stream that the subscriber did not open has ended (see [Listener]).
func (s *Subscriber) OtherStreamEnded() {
	if s.config.SharedPipe && s.listener.aboutLists() != nil {
		s.listener.replaceListsAfter(nil)
	}
}

// Reconcile sends the server what it has not accepted yet of the desired state, and
// answers the requests. Rejected resources are sent again if a request is about
// them, or if retry is true.
func (s *Subscriber) Reconcile(ctx context.Context, requests []Request, retry bool) Result {
	s.results.errs, s.results.retryNeeded = map[string]error{}, false
	s.listener.takeAcks()
	s.forgetRejections(requests, retry)
	maps.DeleteFunc(s.results.errs, func(uri string, _ error) bool { // sent again, or no longer desired
		return s.results.rejected[uri] == nil || !s.config.Desired.contains(uri)
	})
	level, uris, version := s.config.Desired.Snapshot()
	if s.config.Session.Info().Era == mcpvisor.EraModern {
		s.listener.listen(ctx, uris, retry, func() { requests = s.answerStopped(requests) })
		s.listener.awaitAcks(ctx, requests)
	} else {
		s.applyLevel(ctx, level)
		s.applyResources(ctx, uris)
	}
	if s.config.Session.Cause() != nil {
		return Result{Version: version} // the next session starts from the desired state
	}
	s.answer(requests)
	if len(s.results.errs) > 0 && !retry {
		s.config.Logger.Warn().Str("server", s.config.Server).Uint64("epoch", s.config.Epoch).
			Errs("errors", slices.Collect(maps.Values(s.results.errs))).Msg("the server did not accept every subscription")
	}
	return Result{Version: version, RetryNeeded: s.retryNeeded(level)}
}

// forgetRejections clears what must be sent to the server again.
func (s *Subscriber) forgetRejections(requests []Request, retry bool) {
	rejected, desired := s.results.rejected, s.config.Desired
	if retry {
		maps.DeleteFunc(rejected, func(_ string, err error) bool { return !transport.Unsupported(err) })
		if !transport.Unsupported(s.levelErr) {
			s.rejectedLevel = ""
		}
	}
	maps.DeleteFunc(rejected, func(uri string, _ error) bool { // kept while a caller waits for it
		return !desired.contains(uri) && !slices.ContainsFunc(requests, func(r Request) bool { return r.URI == uri })
	})
	for _, r := range requests { // not if the desired state was reverted meanwhile
		switch {
		case r.URI == "" && r.Level == desired.LogLevel():
			s.rejectedLevel = ""
		case r.URI != "" && desired.contains(r.URI):
			delete(rejected, r.URI)
		}
	}
}

// answerStopped replies to the requests that no acknowledgement of the server can change,
// and returns the others.
func (s *Subscriber) answerStopped(requests []Request) (rest []Request) {
	if s.config.Session.Cause() != nil {
		return requests
	}
	var settled []Request
	for _, r := range requests {
		if r.On {
			rest = append(rest, r)
		} else {
			settled = append(settled, r)
		}
	}
	s.answer(settled)
	return rest
}

// answer replies to each request. A subscription or level that the server rejects
// is removed from the desired state.
func (s *Subscriber) answer(requests []Request) {
	for _, r := range requests {
		err := s.errorOf(r)
		if err != nil && isRejection(err) {
			if r.URI == "" {
				s.config.Desired.revertLevel(r.Level, s.level)
			} else if r.On {
				s.config.Desired.SetResource(r.URI, false)
			}
		}
		select {
		case r.Reply <- s.config.WrapError(err):
		default: // the caller has left
		}
	}
	for _, r := range requests { // after all replies: several may be about one resource
		delete(s.results.errs, r.URI)
		delete(s.results.unsubscribeErrs, r.URI)
	}
}

func (s *Subscriber) errorOf(r Request) error {
	if r.URI == "" {
		if r.Level == s.rejectedLevel {
			return s.levelErr
		}
		return s.results.errs[""]
	}
	switch err := s.results.errs[r.URI]; {
	case err != nil:
		return err
	case r.On:
		return s.results.rejected[r.URI]
	}
	return s.results.unsubscribeErrs[r.URI]
}

// retryNeeded reports whether something that is still desired may be accepted later.
func (s *Subscriber) retryNeeded(level string) bool {
	needed := s.results.retryNeeded
	for uri, err := range s.results.rejected {
		needed = needed || s.config.Desired.contains(uri) && !transport.Unsupported(err)
	}
	if level != "" && level == s.rejectedLevel && s.config.Desired.LogLevel() == level {
		needed = needed || !transport.Unsupported(s.levelErr)
	}
	return needed
}

func (s *Subscriber) applyLevel(ctx context.Context, level string) {
	if level == s.level || level == "" || level == s.rejectedLevel {
		return
	}
	err := s.request(ctx, "logging/setLevel", "", map[string]string{"level": level})
	if err == nil {
		s.level = level
		return
	}
	err = transport.KeptError(fmt.Errorf("the server rejected log level %q: %w", level, err))
	if s.results.fail("", err); isRejection(err) {
		s.rejectedLevel, s.levelErr = level, err
	}
}

// applyResources subscribes and unsubscribes with one request for each resource.
func (s *Subscriber) applyResources(ctx context.Context, uris []string) {
	send := func(method, uri string) error {
		if err := s.request(ctx, method, uri, map[string]string{"uri": uri}); err != nil {
			return transport.KeptError(fmt.Errorf("%s of %.200s: %w", method, uri, err))
		}
		return nil
	}
	watched := s.Watched()
	for _, uri := range uris {
		if slices.Contains(watched, uri) || s.results.rejected[uri] != nil {
			continue
		}
		if err := send("resources/subscribe", uri); err != nil {
			s.results.fail(uri, err)
			continue
		}
		s.setWatched(uri, true)
	}
	for _, uri := range watched {
		if slices.Contains(uris, uri) {
			continue
		}
		err := send("resources/unsubscribe", uri)
		s.setWatched(uri, err != nil && !isRejection(err))
		if err == nil {
			continue
		}
		if s.results.errs[uri] = err; isRejection(err) {
			s.results.unsubscribeErrs[uri] = err
		} else {
			s.results.retryNeeded = true
		}
	}
}

func (s *Subscriber) request(ctx context.Context, method, target string, params map[string]string) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	_, err = s.config.Session.Request(ctx, transport.Request{Method: method, Target: target, Params: raw,
		Timeout: s.config.CallTimeout, TotalTimeout: s.config.CallTotal})
	return err
}

func (s *Subscriber) setWatched(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		delete(s.watched, uri)
		return
	}
	if s.watched == nil {
		s.watched = map[string]bool{}
	}
	s.watched[uri] = true
}

// Watched are the resources that were subscribed one by one, sorted. After a gap in
// the notifications each of them counts as updated.
func (s *Subscriber) Watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.watched))
}
