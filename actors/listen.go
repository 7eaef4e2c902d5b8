package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// listener tells one incarnation what the host wants to hear. Until 2025-11-25
// that is a request for each resource and one for the log level; since 2026-07-28
// it is done with streams, see [streams], and the log level goes with every
// request. It works in goroutines of the port, one at a time.
type listener struct {
	level        string // that was accepted
	refusedLevel string
	levelErr     error

	// verdicts are the failures of this time, by resource, and refused those that
	// are not tried again by themselves yet. unsure: some may be.
	verdicts map[string]error
	refused  map[string]error
	unsure   bool
	// kept are refusals to stop, of which nobody has heard yet: a wish is noted
	// before its letter comes, and may be carried out in between.
	kept map[string]error
	streams

	mu      sync.Mutex
	watched map[string]bool         // that were asked for one by one
	opened  map[int64]*listenStream // by their requests
}

// apply makes the server know the wishes, as far as it does not, and answers
// those who wait for one. What was refused before is asked for again if somebody
// wishes it anew, or if all is to be tried anew.
func (p *port) apply(ctx context.Context, wishing []*reconcileSubscriptions, anew bool) *subscriptionsReconciled {
	w := p.inc.desired
	if anew {
		maps.DeleteFunc(p.refused, func(_ string, err error) bool { return !transport.Unsupported(err) })
		if !transport.Unsupported(p.levelErr) {
			p.refusedLevel = ""
		}
	}
	maps.DeleteFunc(p.refused, func(uri string, _ error) bool { // unless somebody wants to know
		return !w.contains(uri) && !slices.ContainsFunc(wishing, func(one *reconcileSubscriptions) bool { return one.uri == uri })
	})
	for _, one := range wishing { // not if it was taken back, as another's was refused
		switch {
		case one.uri == "" && one.level == w.logLevel():
			p.refusedLevel = ""
		case one.uri != "" && w.contains(one.uri):
			delete(p.refused, one.uri)
		}
	}
	p.verdicts, p.unsure = map[string]error{}, false
	if p.refused == nil {
		p.refused, p.kept = map[string]error{}, map[string]error{}
	}
	level, uris, version := w.snapshot()
	if p.inc.session.Info().Era == mcpvisor.EraModern {
		p.listen(ctx, uris)
		p.hearOf(ctx, wishing)
	} else {
		p.setLevel(ctx, level)
		p.watchEach(ctx, uris)
	}
	if p.inc.session.Cause() != nil {
		return &subscriptionsReconciled{version: version}
	}
	for _, one := range wishing {
		err := p.verdict(one)
		if err != nil && isRejection(err) {
			if one.uri == "" {
				w.revertLevel(one.level, p.level)
			} else if one.on {
				w.set(one.uri, false)
			}
		}
		answer(one.reply, p.asError(err))
	}
	for _, one := range wishing {
		delete(p.verdicts, one.uri) // it is known
		delete(p.kept, one.uri)
	}
	if len(p.verdicts) > 0 && !anew {
		p.rt.opts.Logger.Warn().Str("server", p.inc.server).Uint64("epoch", p.inc.epoch).
			Errs("errors", slices.Collect(maps.Values(p.verdicts))).Msg("the server does not tell all that was asked for")
	}
	for uri, err := range p.refused {
		p.unsure = p.unsure || w.contains(uri) && !transport.Unsupported(err)
	}
	if level != "" && level == p.refusedLevel && w.logLevel() == level {
		p.unsure = p.unsure || !transport.Unsupported(p.levelErr)
	}
	return &subscriptionsReconciled{version: version, pending: p.unsure}
}

func (p *port) verdict(w *reconcileSubscriptions) error {
	if w.uri == "" {
		if w.level == p.refusedLevel {
			return p.levelErr
		}
		return p.verdicts[""]
	}
	switch err := p.verdicts[w.uri]; {
	case err != nil:
		return err
	case w.on:
		return p.refused[w.uri]
	}
	return p.kept[w.uri]
}

// fail notes why a wish was not granted.
func (p *port) fail(uri string, err error) {
	p.verdicts[uri] = err
	if uri != "" && isRejection(err) {
		p.refused[uri] = err
	}
	p.unsure = p.unsure || !isRejection(err)
}

// isRejection reports whether it was the server who said no.
func isRejection(err error) bool {
	var e *mcpvisor.Error
	return errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeAnswered && e.Kind != mcpvisor.KindUnavailable
}

func (p *port) setLevel(ctx context.Context, level string) {
	if level == p.level || level == "" || level == p.refusedLevel {
		return
	}
	params, _ := json.Marshal(map[string]string{"level": level})
	err := p.request(ctx, "logging/setLevel", "", params)
	if err == nil {
		p.level = level
		return
	}
	err = fmt.Errorf("the log level %q is refused: %w", level, err)
	if p.fail("", err); isRejection(err) {
		p.refusedLevel, p.levelErr = level, err
	}
}

// watchEach asks for each resource with a request of its own.
func (p *port) watchEach(ctx context.Context, uris []string) {
	ask := func(method, uri string) error {
		params, _ := json.Marshal(map[string]string{"uri": uri})
		if err := p.request(ctx, method, uri, params); err != nil {
			return fmt.Errorf("%s of %.200s: %w", method, uri, err)
		}
		return nil
	}
	watched := p.watchedNow()
	for _, uri := range uris {
		if slices.Contains(watched, uri) || p.refused[uri] != nil {
			continue
		}
		if err := ask("resources/subscribe", uri); err != nil {
			p.fail(uri, err)
			continue
		}
		p.setWatched(uri, true)
	}
	for _, uri := range watched {
		if slices.Contains(uris, uri) {
			continue
		}
		err := ask("resources/unsubscribe", uri)
		p.setWatched(uri, err != nil && !isRejection(err))
		if err == nil {
			continue
		}
		if p.verdicts[uri] = err; isRejection(err) {
			p.kept[uri] = err
		} else {
			p.unsure = true
		}
	}
}

func (p *port) request(ctx context.Context, method, target string, params json.RawMessage) error {
	idle, hardMax := CallTimeouts(p.inc.spec.Timeouts, 0)
	_, err := p.inc.session.Request(ctx, transport.Request{Method: method, Target: target, Params: params, Timeout: idle, TotalTimeout: hardMax})
	return err
}

func (p *port) setWatched(uri string, on bool) {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	if !on {
		delete(p.watched, uri)
		return
	}
	if p.watched == nil {
		p.watched = map[string]bool{}
	}
	p.watched[uri] = true
}

// watchedNow are the resources that were asked for one by one, in order.
func (p *port) watchedNow() []string {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	return slices.Sorted(maps.Keys(p.watched))
}
