package actors

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
)

const (
	// settleDelay is how long after an announced change the list is read: changes
	// come in bursts.
	settleDelay = 50 * time.Millisecond
	// minRefreshInterval is the least time from the end of one reading to the start
	// of the next. A server that announces a thousand changes a second is read four
	// times.
	minRefreshInterval = 250 * time.Millisecond
	// minListTTL bounds how often a list is read because the server says that it
	// expires (2026-07-28, caching).
	minListTTL = 10 * time.Second
)

// listRetry is the wait before a list that could not be read is read again.
var listRetry = backoff.Backoff{First: time.Second, Max: 30 * time.Second}

// refresher keeps the catalog of a ready server up to date. It reads a list when the
// server announces a change, when the list expires or gets too old, when a failed reading is retried,
// and when a caller asks for it. One timer serves all of these; see nextReading.
//
// All fields are owned by the port's actor goroutine; any goroutine may note a change in incarnation.changed.
// A reading runs in a goroutine of its own, and there is one at a time.
type refresher struct {
	port      *portRef
	active    bool // between start and stop
	reading   bool
	waiting   []chan<- error // callers of Refresh that the next reading serves
	settledAt time.Time      // when announced changes are read
	lastRead  time.Time      // the end of the last reading

	// broken are the lists that could not be read. They have a time of their own, so
	// that they delay no other list.
	broken   catalog.Lists
	failures int // in a row
	retryAt  time.Time

	expires map[catalog.Lists]time.Time // when a list is too old, as the server or the spec says

	timer *time.Timer
	due   time.Time // of the armed timer; zero: no timer is armed
}

// Messages of a port to itself, about the lists.
type (
	// listChanged: the server announced a change.
	listChanged struct{ messages.Base }
	// firstListsRead: discovery has read all lists.
	firstListsRead struct {
		messages.Base
		catalog *catalog.Catalog
	}
	// refreshDue: the timer fired.
	refreshDue struct{ messages.Base }
	// refreshNow: a caller asked for a reading of all lists.
	refreshNow struct {
		messages.Base
		reply chan<- error
	}
	// listsRead: a reading has ended.
	listsRead struct {
		messages.Base
		lists, broken catalog.Lists
		catalog       *catalog.Catalog
		waiting       []chan<- error
		err           error
	}
)

// catalogRefreshed tells the supervising actor which lists were read again. The callers
// that wait are answered when the result is published.
type catalogRefreshed struct {
	messages.Base
	epoch   uint64
	lists   catalog.Lists
	catalog *catalog.Catalog
	waiting []chan<- error
}

// receive handles the messages about the lists, and ignores all others.
func (r *refresher) receive(m any) {
	switch m := m.(type) {
	case *firstListsRead:
		r.setExpiry(catalog.AllLists, catalog.AllLists, m.catalog)
	case *listChanged:
		r.settledAt = time.Now().Add(settleDelay)
		r.schedule()
	case *refreshDue:
		r.read()
	case *refreshNow:
		r.waiting = append(r.waiting, m.reply)
		r.read()
	case *listsRead:
		r.onRead(m)
	}
}

func (r *refresher) start() {
	r.active = true
	r.schedule()
}

func (r *refresher) stop() {
	r.active = false
	r.stopTimer()
}

// markChanged notes that lists have changed. Any goroutine may call it; it does not
// block.
func (r *refresher) markChanged(lists catalog.Lists) {
	if known := catalog.Lists(r.port.inc.changed.Or(uint32(lists))); lists&^known != 0 {
		r.port.sendSelf(&listChanged{})
	}
}

// nextReading returns the lists that are due at time now, and the time at which the next
// list is due; zero if no other list is.
func (r *refresher) nextReading(now time.Time) (lists catalog.Lists, later time.Time) {
	plan := func(what catalog.Lists, at time.Time) {
		switch {
		case what == 0:
		case !at.After(now):
			lists |= what
		case later.IsZero() || at.Before(later):
			later = at
		}
	}
	plan(catalog.Lists(r.port.inc.changed.Load())&^r.broken, r.settledAt)
	plan(r.broken, r.retryAt)
	for list, at := range r.expires {
		plan(list, at)
	}
	return lists, later
}

// schedule arms the timer for the next reading.
func (r *refresher) schedule() {
	if !r.active || r.reading {
		return
	}
	lists, at := r.nextReading(time.Now())
	if lists != 0 {
		at = time.Now()
	}
	if soonest := r.lastRead.Add(minRefreshInterval); !at.IsZero() && at.Before(soonest) {
		at = soonest
	}
	if at.Equal(r.due) {
		return
	}
	r.stopTimer()
	if at.IsZero() {
		return
	}
	r.due = at
	r.timer = r.port.afterFunc(time.Until(at), &refreshDue{})
}

func (r *refresher) stopTimer() {
	stopTimer(&r.timer)
	r.due = time.Time{}
}

// read reads the lists that are due, and all lists if a caller waits. During a reading
// it does nothing: onRead calls it again.
func (r *refresher) read() {
	if !r.active || r.reading {
		return
	}
	r.stopTimer()
	lists, _ := r.nextReading(time.Now())
	waiting := r.waiting
	if r.waiting = nil; len(waiting) > 0 {
		lists = catalog.AllLists
	}
	if lists == 0 {
		r.schedule()
		return
	}
	r.port.inc.readings.Add(1) // first
	r.port.inc.changed.And(^uint32(lists))
	r.reading = true
	port, inc := r.port, r.port.inc
	port.rt.goSafe("port", func() {
		ctx, cancel := bounded(inc.spec.Timeouts.List)
		defer cancel()
		m := &listsRead{lists: lists, waiting: waiting}
		m.catalog, m.broken, m.err = discovery.DiscoverLists(ctx, r.port.rt.listing(inc), inc.server, inc.spec.Limits, lists)
		m.catalog = port.rt.offered(inc.spec, m.catalog, inc.session.Info().Instructions, lists&^m.broken)
		port.sendSelf(m)
	}, func(v any) {
		port.sendSelf(&listsRead{lists: lists, waiting: waiting, err: fmt.Errorf("internal error while listing: %v", v)})
	})
}

// onRead takes up the outcome of a reading. Lists that could not be read stay as they
// were, and are tried again.
func (r *refresher) onRead(m *listsRead) {
	r.reading, r.lastRead = false, time.Now()
	if r.port.inc.session.Cause() != nil {
		r.answer(m.waiting, nil) // the callers see the end of the session themselves
		return
	}
	good := m.lists &^ m.broken
	if m.err != nil {
		good = 0
	}
	r.planRetry(m, good)
	r.setExpiry(m.lists, good, m.catalog)
	if len(r.waiting) > 0 {
		r.read()
	} else {
		r.schedule()
	}
	if good == 0 {
		r.port.inc.readings.Add(-1)
		r.answer(m.waiting, m.err)
		return
	}
	r.port.sendParent(&catalogRefreshed{epoch: r.port.inc.epoch, lists: good, catalog: m.catalog, waiting: m.waiting})
}

// planRetry plans another reading of the lists that failed.
func (r *refresher) planRetry(m *listsRead, good catalog.Lists) {
	bad := m.lists &^ good
	if r.broken = r.broken&^good | bad; bad == 0 {
		if r.broken == 0 {
			r.failures = 0
		}
		return
	}
	r.failures++
	r.retryAt = r.lastRead.Add(listRetry.Delay(r.failures))
	server, warnings := r.port.inc.server, []string(nil)
	if m.catalog != nil {
		for _, w := range m.catalog.Warnings {
			warnings = append(warnings, w.String())
		}
	}
	r.port.rt.logger.Line(func(log *zerolog.Logger) {
		log.Warn().Str("server", server).Err(m.err).Strs("warnings", warnings).
			Msg("a list that had changed could not be read; it is tried again")
	})
}

// setExpiry records when each list that was read expires. A list that could not be read is
// broken, and does not expire.
func (r *refresher) setExpiry(read, good catalog.Lists, c *catalog.Catalog) {
	for list := catalog.ListTools; list <= catalog.AllLists; list <<= 1 {
		if read&list == 0 {
			continue
		}
		delete(r.expires, list)
		if c == nil || good&list == 0 {
			continue
		}
		valid := c.TTL[list]
		if valid <= 0 {
			valid = r.maxAge(list)
		}
		if valid <= 0 {
			continue
		}
		if r.expires == nil {
			r.expires = map[catalog.Lists]time.Time{}
		}
		r.expires[list] = time.Now().Add(max(valid, minListTTL))
	}
}

// maxAge is how long a list is valid by Timeouts.MaxListAge; 0 if that is not set, and for a
// list whose changes the server announces. It is up to a quarter shorter, at random: servers
// that were registered together are then not read together.
func (r *refresher) maxAge(list catalog.Lists) time.Duration {
	age, caps := r.port.inc.spec.Timeouts.MaxListAge, r.port.inc.session.Info().Capabilities
	if age <= 0 || caps == nil {
		return 0
	}
	silent := false
	switch list {
	case catalog.ListTools:
		silent = caps.Tools != nil && !caps.Tools.ListChanged
	case catalog.ListResources:
		silent = caps.Resources != nil && !caps.Resources.ListChanged
	case catalog.ListPrompts:
		silent = caps.Prompts != nil && !caps.Prompts.ListChanged
	default:
	}
	if !silent {
		return 0
	}
	return age - rand.N(age/4+1)
}

func (r *refresher) answer(waiting []chan<- error, err error) {
	for _, reply := range waiting {
		answer(reply, r.port.inc.wrapError(err))
	}
}
