package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	// settleDelay is how long after a change the list is read: changes come in crowds.
	settleDelay = 50 * time.Millisecond
	// minRefreshInterval is the least time from the end of one reading to the next. A
	// server that announces a thousand changes a second is read four times.
	minRefreshInterval = 250 * time.Millisecond
	// A list that cannot be read is tried again after 1, 2, 4 … 30 s.
	firstListRetry, maxListRetry = time.Second, 30 * time.Second
	// minListTTL bounds how often a list is read because it says that it is old.
	minListTTL = 10 * time.Second
)

// refresher keeps the catalog of a ready server true. It belongs to the port;
// changed is written by whoever reads from the server. There is one timer, and
// what it is set to follows from the rest: see nextReading.
type refresher struct {
	changed atomic.Uint32 // the catalog.Lists of which that was announced

	ready   bool
	reading bool
	waiting []chan<- error
	settled time.Time // when what was announced is read
	last    time.Time // the end of the last reading

	// broken are the lists that could not be read. They wait for their own time, so
	// that they hold up nobody.
	broken   catalog.Lists
	failures int       // in a row
	again    time.Time // when they are tried again

	// stale is when a list is too old, as the server says (2026-07-28, caching).
	stale map[catalog.Lists]time.Time

	due   time.Time // of the timer that is armed; zero: none is
	timer *time.Timer
}

// The letters of a port about its lists. refreshNow is a wish of the host's,
// listed the end of a reading, listedFirst that of the first one.
type (
	listChanged    struct{ messages.Letter }
	firstListsRead struct {
		messages.Letter
		catalog *catalog.Catalog
	}
	refreshDue struct{ messages.Letter }
	refreshNow struct {
		messages.Letter
		reply chan<- error
	}
	listsRead struct {
		messages.Letter
		lists, broken catalog.Lists
		catalog       *catalog.Catalog
		waiting       []chan<- error
		err           error
	}
)

// refreshed tells a supervising actor what was read anew. waiting are those who
// want to know when everybody can see it.
type refreshed struct {
	messages.Letter
	epoch   uint64
	lists   catalog.Lists
	catalog *catalog.Catalog
	waiting []chan<- error
}

// outdated notes that lists have changed. It may be called by anybody.
func (p *port) outdated(lists catalog.Lists) {
	if known := catalog.Lists(p.changed.Or(uint32(lists))); lists&^known != 0 {
		p.rt.system.Root.Send(p.self, &listChanged{})
	}
}

// nextReading is what is to be read at a time, and the earliest time that
// something else is; zero if nothing is.
func (p *port) nextReading(now time.Time) (lists catalog.Lists, later time.Time) {
	plan := func(what catalog.Lists, at time.Time) {
		switch {
		case what == 0:
		case !at.After(now):
			lists |= what
		case later.IsZero() || at.Before(later):
			later = at
		}
	}
	plan(catalog.Lists(p.changed.Load())&^p.broken, p.settled)
	plan(p.broken, p.again)
	for list, at := range p.stale {
		plan(list, at)
	}
	return lists, later
}

// planRefresh sets the timer.
func (p *port) planRefresh() {
	if !p.ready || p.reading {
		return
	}
	lists, at := p.nextReading(time.Now())
	if lists != 0 {
		at = time.Now()
	}
	if soonest := p.last.Add(minRefreshInterval); !at.IsZero() && at.Before(soonest) {
		at = soonest
	}
	if at.Equal(p.due) {
		return
	}
	p.stopRefresh()
	if at.IsZero() {
		return
	}
	self := p.self
	p.due = at
	p.timer = time.AfterFunc(time.Until(at), func() { p.rt.system.Root.Send(self, &refreshDue{}) })
}

func (p *port) stopRefresh() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.due = time.Time{}
}

// announced has what was announced read when the crowd is over.
func (p *port) announced() {
	p.settled = time.Now().Add(settleDelay)
	p.planRefresh()
}

// refresh reads what is due, and everything if somebody waits for it.
func (p *port) refresh() {
	if !p.ready || p.reading {
		return // what waits is seen to at the end of the reading
	}
	p.stopRefresh()
	lists, _ := p.nextReading(time.Now())
	waiting := p.waiting
	if p.waiting = nil; len(waiting) > 0 {
		lists = catalog.AllLists
	}
	if lists == 0 {
		p.planRefresh()
		return
	}
	p.changed.And(^uint32(lists))
	p.reading = true
	inc, self := p.inc, p.self
	p.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.List)
		defer cancel()
		l := &listsRead{lists: lists, waiting: waiting}
		l.catalog, l.broken, l.err = transport.DiscoverLists(ctx, inc.session, inc.server, inc.spec.Limits, lists)
		if lists&^l.broken&catalog.ListTools != 0 {
			l.catalog = l.catalog.Offered(inc.spec.Tools)
		}
		p.rt.system.Root.Send(self, l)
	}, func(v any) {
		p.rt.system.Root.Send(self, &listsRead{lists: lists, waiting: waiting, err: fmt.Errorf("internal error while listing: %v", v)})
	})
}

// listedAgain draws the conclusions from a reading. Lists that could not be read
// stay as they were, and are tried again.
func (p *port) listedAgain(l *listsRead) {
	p.reading, p.last = false, time.Now()
	if p.inc.session.Cause() != nil {
		p.answer(l.waiting, nil) // they see the end themselves
		return
	}
	good := l.lists &^ l.broken
	if l.err != nil {
		good = 0
	}
	bad := l.lists &^ good
	if p.broken = p.broken&^good | bad; bad != 0 {
		p.failures++
		p.again = p.last.Add(min(firstListRetry<<min(p.failures-1, 10), maxListRetry))
		p.rt.opts.Logger.Warn().Str("server", p.inc.server).Err(l.err).Strs("warnings", warnings(l.catalog)).
			Msg("a list that had changed could not be read; it is tried again")
	} else if p.broken == 0 {
		p.failures = 0
	}
	p.age(l.lists, good, l.catalog)
	if len(p.waiting) > 0 {
		p.refresh()
	} else {
		p.planRefresh()
	}
	if good == 0 {
		p.answer(l.waiting, l.err)
		return
	}
	p.tell(&refreshed{epoch: p.inc.epoch, lists: good, catalog: l.catalog, waiting: l.waiting})
}

// age notes for how long the lists that were read are true. What could not be
// read is broken, and not old.
func (p *port) age(read, good catalog.Lists, c *catalog.Catalog) {
	for list := catalog.ListTools; list <= catalog.AllLists; list <<= 1 {
		if read&list == 0 {
			continue
		}
		delete(p.stale, list)
		if c == nil || good&list == 0 || c.TTL[list] <= 0 {
			continue
		}
		if p.stale == nil {
			p.stale = map[catalog.Lists]time.Time{}
		}
		p.stale[list] = time.Now().Add(max(c.TTL[list], minListTTL))
	}
}

func warnings(c *catalog.Catalog) []string {
	if c == nil {
		return nil
	}
	return c.Warnings
}

// answer tells those who wait how it ended. What the server answered is a
// protocol error to them; any other failure is what it is.
func (p *port) answer(waiting []chan<- error, err error) {
	for _, reply := range waiting {
		answer(reply, p.asError(err))
	}
}

// asError is an error of this incarnation, for one who waits: a fresh one, as
// each adds what was attempted.
func (p *port) asError(err error) error {
	if err == nil {
		return nil
	}
	e := &mcpvisor.Error{Server: p.inc.server, Gen: p.inc.gen, Epoch: p.inc.epoch, Kind: mcpvisor.KindProtocol,
		Outcome: mcpvisor.OutcomeAnswered, Cause: err}
	switch of := (*mcpvisor.Error)(nil); {
	case errors.As(err, &of):
		if of.Kind != mcpvisor.KindRPC {
			e.Kind, e.Outcome, e.RetryAfter, e.Stderr = of.Kind, of.Outcome, of.RetryAfter, of.Stderr
		}
		if e.Kind == mcpvisor.KindCanceled { // by the port's clock: nobody else can
			e.Kind = mcpvisor.KindTimeout
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind, e.Outcome = mcpvisor.KindTimeout, mcpvisor.OutcomeUnknown
	}
	return e
}

// refreshed puts what was read anew in place, in one swap.
func (s *supervising) refreshed(m *refreshed) {
	switch {
	case s.isSpare(m.epoch) && s.spare.catalog != nil:
		s.spare.catalog, _ = s.spare.catalog.Refreshed(m.catalog, m.lists)
	case m.epoch == s.lc.Epoch() && s.lc.State() == supervisor.StateReady && s.published != nil:
		next, change := s.published.Refreshed(m.catalog, m.lists)
		s.published = next
		var events []mcpvisor.Event
		if !change.IsZero() {
			events = append(events, s.stamp(mcpvisor.Event{Kind: mcpvisor.EventChanged, Change: &change, Tools: len(next.Tools),
				Resources: len(next.Resources), Templates: len(next.Templates), Prompts: len(next.Prompts)}))
		}
		r := s.newReport(events)
		r.replies = m.waiting
		s.rt.post(r)
		return
	}
	for _, reply := range m.waiting {
		answer(reply, nil)
	}
}

// Refresh reads the lists of a server anew, and returns when everybody sees the
// result.
func (rt *Runtime) Refresh(ctx context.Context, v *View) error {
	return rt.requestPort(ctx, v, func(reply chan<- error) any { return &refreshNow{reply: reply} })
}

// requestPort sends a letter to the port of a server that is ready, and waits for the
// reply.
func (rt *Runtime) requestPort(ctx context.Context, v *View, letter func(reply chan<- error) any) error {
	if v.State != supervisor.StateReady || v.current.port == nil {
		return v.unavailable()
	}
	reply := make(chan error, 1)
	rt.system.Root.Send(v.current.port, letter(reply))
	select {
	case err := <-reply:
		if shared := (*mcpvisor.Error)(nil); errors.As(err, &shared) {
			e := *shared
			e.Server, e.Gen, e.Epoch = v.Name, v.Gen, v.current.epoch
			return &e
		}
		return err
	case <-v.current.session.Dead():
		e := v.current.unavailable()
		e.Server, e.Gen, e.Epoch = v.Name, v.Gen, v.current.epoch
		return e
	case <-ctx.Done():
		return &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Epoch: v.current.epoch, Kind: mcpvisor.KindCanceled,
			Outcome: mcpvisor.OutcomeUnknown, Cause: context.Cause(ctx)}
	}
}
