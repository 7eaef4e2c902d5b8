package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// ackTimeout bounds the wait for the word that a stream of notifications stands.
const ackTimeout = 3 * time.Second

// maxResourceStreams is how many streams there may be about resources: over HTTP each
// has a connection, or a part of one.
const maxResourceStreams = 16

// streams are the open requests subscriptions/listen of one incarnation
// (2026-07-28): one about the lists, and some about resources, each about its
// own. A new resource gets a stream of its own, so that its refusal costs nobody
// anything; when there are too many, small ones become one.
//
// A resource is never in two streams at once, and what takes the place of a
// stream begins when that has ended. Servers made with the go-sdk ask for both:
// on a pipe they note one listener for each resource, and when any stream ends,
// even one that they refuse, they forget who listens for the lists. There the
// stream of the lists is opened anew after that.
type streams struct {
	lists  *listenStream
	groups []*listenStream
	// ended: some stream has ended since that of the lists was opened.
	ended bool
}

// listen sees to it that there are streams about all that is wanted. It returns
// when the server has said what it honors, or when it is clear that it will not.
func (p *port) listen(ctx context.Context, uris []string) {
	first := p.lists == nil
	if first {
		p.openLists(false)
	}
	var over []*listenStream // these end
	var again, fresh []string
	kept := slices.DeleteFunc(slices.Clone(p.groups), func(g *listenStream) bool {
		gone := !g.isOpen() || slices.ContainsFunc(g.uris, func(uri string) bool { return !slices.Contains(uris, uri) })
		if gone {
			over = append(over, g)
		}
		return gone
	})
	for _, uri := range uris {
		held := slices.ContainsFunc(p.groups, func(g *listenStream) bool { return slices.Contains(g.uris, uri) })
		if !held && p.refused[uri] == nil {
			fresh = append(fresh, uri)
		}
	}
	if len(fresh) > 0 && len(kept) >= maxResourceStreams {
		slices.SortStableFunc(kept, func(a, b *listenStream) int { return len(a.uris) - len(b.uris) })
		over, kept = append(over, kept[:len(kept)/2+1]...), kept[len(kept)/2+1:]
	}
	for _, g := range over {
		for _, uri := range g.uris {
			if slices.Contains(uris, uri) {
				again = append(again, uri)
			}
		}
	}
	p.groups = kept
	if len(over) > 0 {
		if p.onePipe() && p.lists.isOpen() {
			over = append(over, p.lists)
		}
		p.end(over...)
	}
	p.try(ctx, again, true)
	p.try(ctx, fresh, false)
	if p.ended && p.onePipe() && !p.lists.final() {
		p.end(p.lists)
		p.openLists(true)
	}
	p.ended = false
	if first {
		p.await(ctx, p.lists)
	}
	for _, g := range p.groups {
		p.unsure = p.unsure || !p.stands(g)
	}
}

// openLists opens the stream about the lists that the server announces changes
// of. gap: there was one before.
func (p *port) openLists(gap bool) {
	var wants subscriptionFilter
	if caps := p.inc.session.Info().Capabilities; caps != nil {
		wants.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
		wants.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
		wants.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
	}
	p.lists = p.openStream(wants, nil, gap)
}

// onePipe reports whether all streams share one channel, and what that knows of
// listeners.
func (p *port) onePipe() bool { return p.inc.spec.HTTP == nil }

// end ends streams and waits for it.
func (p *port) end(over ...*listenStream) {
	for _, s := range over {
		s.stop()
	}
	for _, s := range over {
		<-s.ended
	}
	p.ended = true
}

// try opens a stream about resources. If it is refused because of some of them,
// those are found by halves.
func (p *port) try(ctx context.Context, uris []string, gap bool) {
	if len(uris) == 0 || p.inc.session.Cause() != nil {
		return
	}
	if ctx.Err() != nil {
		for _, uri := range uris {
			p.fail(uri, unconfirmed(uri))
		}
		return
	}
	g := p.openStream(subscriptionFilter{ResourceSubscriptions: uris}, uris, gap)
	w := p.await(ctx, g)
	switch {
	case w.final:
		<-g.ended
		if p.ended = true; len(uris) > 1 {
			half := len(uris) / 2
			p.try(ctx, uris[:half], gap)
			p.try(ctx, uris[half:], gap)
			return
		}
		p.fail(uris[0], fmt.Errorf("subscriptions/listen is refused for %.200s: %w", uris[0], w.err))
		return
	case w.err != nil: // it goes on trying
		for _, uri := range uris {
			p.verdicts[uri] = w.err
		}
	default:
		g.uris = nil
		for _, uri := range uris {
			if slices.Contains(w.honored, uri) {
				g.uris = append(g.uris, uri)
				continue
			}
			p.fail(uri, &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
				Cause: fmt.Errorf("the server does not watch %.200s", uri)})
		}
		if len(g.uris) == 0 {
			p.end(g)
			return
		}
	}
	p.groups = append(p.groups, g)
}

// hearOf waits for the streams about what is wished anew that did not stand so
// far.
func (p *port) hearOf(ctx context.Context, wishing []*reconcileSubscriptions) {
	for _, g := range p.groups {
		if p.stands(g) || !slices.ContainsFunc(wishing, func(w *reconcileSubscriptions) bool {
			return slices.Contains(g.uris, w.uri) && p.verdicts[w.uri] == nil
		}) {
			continue
		}
		if w := p.await(ctx, g); w.err != nil {
			for _, uri := range g.uris {
				p.verdicts[uri] = w.err
			}
		}
	}
}

// await waits for the word on a stream: what the server honors, or why it does
// not.
func (p *port) await(ctx context.Context, s *listenStream) ackResult {
	t := time.NewTimer(ackTimeout)
	defer t.Stop()
	select {
	case w := <-s.word:
		return w
	case <-p.inc.session.Dead():
		return ackResult{err: errors.New("the session has ended")}
	case <-s.ended:
		select {
		case w := <-s.word:
			return w
		default:
			return ackResult{} // it is about nothing
		}
	case <-t.C:
	case <-ctx.Done():
	}
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	s.gap = s.gap || !s.stands // what falls in between is looked for when it stands
	return ackResult{err: unconfirmed(s.uris...)}
}

func unconfirmed(uris ...string) error {
	return &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Outcome: mcpvisor.OutcomeUnknown,
		Cause: fmt.Errorf("the server did not confirm in time that it watches %.200q; it is asked again", uris)}
}
