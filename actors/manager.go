package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors/internal/subscription"
	"github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// manager is the only writer of the registries. It changes maps, publishes snapshots
// and sends messages; it never waits. When a manager crashes, root spawns the next one,
// which finds the state and the unread messages as the last one left them.
//
// All fields are owned by the goroutine of the actor.
type manager struct {
	rt      *Runtime
	servers *actor.PID
	inbox   *inbox
	state   *managerState
	current messages.Message // being handled
}

// managerState is what outlives a manager beside its inbox. Owned by the current
// manager: the last one has ended before the next begins.
type managerState struct {
	registrations map[string]*registration // by the name of the server
	closing       bool                     // CloseAll was handled
	tree          tree
	draft         draft
}

// reconcileRequest asks the parent of all servers which registrations up to a
// generation exist. It also asks each supervising actor for a report.
type reconcileRequest struct {
	messages.Base
	upTo uint64
}

// reconcileReply lists them by generation.
type reconcileReply struct {
	messages.Base
	upTo    uint64
	present map[uint64]bool
}

// Receive implements actor.Actor.
func (m *manager) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		if m.rt.managers.Add(1) > 1 {
			m.recoverState(c)
		}
		m.drainInbox(c)
	case *wake:
		m.drainInbox(c)
	case *actor.Stopping:
		m.flush()
		m.answerAbandoned()
	}
}

// drainInbox handles all messages of the inbox, and publishes what they change: at the
// end, and after maxDraftMessages of them.
func (m *manager) drainInbox(c actor.Context) {
	for n := 1; ; n++ {
		var ok bool
		if m.current, ok = m.inbox.pop(); !ok {
			m.flush()
			return
		}
		m.handle(c, m.current)
		if n%maxDraftMessages == 0 {
			m.flush()
		}
	}
}

func (m *manager) handle(c actor.Context, message messages.Message) {
	switch msg := message.(type) {
	case *messages.Register:
		m.registerAll(c, []*messages.Register{msg})
	case *messages.RegisterAll:
		m.registerAll(c, msg.All)
	case *messages.Unregister:
		m.unregister(c, msg)
	case *messages.UnregisterAll:
		m.unregisterAll(c, msg)
	case *messages.Operate:
		m.operate(c, msg)
	case *messages.SetGroups:
		m.setGroups(msg)
	case *treeRequest:
		m.state.tree.changed = true
	case *groupReport:
		m.onGroupReport(msg)
	case *restRequest:
		m.mayRest(c, msg)
	case *messages.Fence:
		m.fence(c, msg)
	case *messages.CloseAll:
		m.state.closing = true
		m.stopAll(c)
	case *supervisorStarted:
		m.onSupervisorStarted(c, msg)
	case *report:
		m.onReport(c, msg)
	case *supervisorEnded:
		m.onSupervisorEnded(c, msg)
	case *reconcileReply:
		for name, r := range m.state.registrations {
			for ; r != nil; r = r.beside {
				if r.gen <= msg.upTo && !msg.present[r.gen] {
					m.onSupervisorEnded(c, &supervisorEnded{name: name, gen: r.gen, released: true})
				}
			}
		}
	}
}

// recoverState repairs what the last manager may have left half done: registrations
// without an entry, and stops that were decided but not sent. The servers have lived on
// beside it. They report again, and a registration that none of them reports has ended.
func (m *manager) recoverState(c actor.Context) {
	m.state.tree.ending = nil
	m.state.tree.dirty()
	for _, r := range m.state.registrations {
		r.stopSent = false
	}
	m.flush()
	snapshot := m.rt.Snapshot()
	for _, name := range snapshot.Names() {
		v := snapshot.Server(name)
		if r := m.state.registrations[name]; r == nil || r.gen != v.Gen {
			m.state.registrations[name] = &registration{gen: v.Gen}
		}
	}
	for name, r := range m.state.registrations {
		for ; r != nil; r = r.beside {
			m.sendDecided(c, name, r)
		}
	}
	c.Send(m.servers, &reconcileRequest{upTo: m.rt.nextGen.Load()})
	if m.state.closing {
		m.stopAll(c)
	}
}

// answerAbandoned answers the callers that no later manager will answer: the caller of
// the message being handled, and the callers that wait for a report, which may have been
// that message.
func (m *manager) answerAbandoned() {
	err := &mcpvisor.Error{Kind: mcpvisor.ErrClosed, Hint: "try again",
		Cause: errors.New("the manager stopped before it could answer")}
	switch msg := m.current.(type) {
	case *messages.Register:
		m.answerUnknown(msg, err)
	case *messages.RegisterAll:
		for _, r := range msg.All {
			m.answerUnknown(r, err)
		}
	case *messages.Unregister:
		if r := m.state.registrations[msg.Name]; r == nil || !slices.Contains(r.unregister, msg.Reply) {
			answer(msg.Reply, err)
		}
	case *messages.Fence:
		if r := m.state.registrations[msg.Name]; r == nil || !slices.Contains(r.fencing, msg.Reply) {
			answer(msg.Reply, err)
		}
	case *messages.UnregisterAll:
		for _, u := range msg.All {
			if r := m.state.registrations[u.Name]; r == nil || !slices.Contains(r.unregister, u.Reply) {
				answer(u.Reply, err)
			}
		}
	case *messages.Operate:
		if r := m.state.registrations[msg.Name]; msg.Reply != nil && (r == nil || !slices.Contains(r.stopped, msg.Reply)) {
			answer(msg.Reply, err)
		}
	case *messages.SetGroups:
		answer(msg.Reply, err)
	case *report:
		if msg != nil {
			for _, reply := range msg.replies {
				answer(reply, err)
			}
		}
	}
	for _, r := range m.state.registrations {
		for _, reply := range r.restart {
			answer(reply, err)
		}
		r.restart = nil
	}
}

// answerUnknown answers a Register of which no registration knows.
func (m *manager) answerUnknown(msg *messages.Register, err error) {
	if r := m.state.registrations[msg.Spec.Name]; r == nil || r.register != msg.Reply && r.successor != msg && (r.beside == nil || r.beside.register != msg.Reply) {
		answer(msg.Reply, err)
	}
}

// registerAll registers servers in their order. A server that does not fit yet, because a later one must replace another
// first, is tried again after it. Servers that are replaced end together.
func (m *manager) registerAll(c actor.Context, all []*messages.Register) {
	var names []string
	for _, msg := range all {
		names = append(names, msg.Spec.Name)
	}
	m.together(c, names, func() { m.registerFitting(c, all) })
}

func (m *manager) registerFitting(c actor.Context, all []*messages.Register) {
	for {
		var unfit []*messages.Register
		var errs []error
		for _, msg := range all {
			if err := m.register(c, msg); err != nil {
				unfit, errs = append(unfit, msg), append(errs, err)
			}
		}
		if len(unfit) == len(all) {
			for i, msg := range unfit {
				m.reply(msg.Reply, errs[i])
			}
			return
		}
		all = unfit
	}
}

// register registers a server. The error says why it does not fit into the order of the servers; its caller has no
// answer then.
func (m *manager) register(c actor.Context, msg *messages.Register) error {
	name := msg.Spec.Name
	if m.state.closing {
		m.reply(msg.Reply, ClosedError(name))
		return nil
	}
	if err := m.checkTree(m.state.tree.groups, &msg.Spec); err != nil {
		return err
	}
	if r := m.state.registrations[name]; r != nil {
		m.replace(c, msg, r)
	} else {
		m.add(c, msg, subscription.NewDesired(), nil, false)
	}
	return nil
}

// add makes a registration of a name that is free. last is what the registration offered
// that it replaces; nil if there was none. halted: an operator has stopped the server.
func (m *manager) add(c actor.Context, msg *messages.Register, desired *subscription.Desired, last *catalog.Catalog, halted bool) {
	name, gen := msg.Spec.Name, m.rt.nextGen.Add(1)
	r := &registration{gen: gen, register: msg.Reply, halted: halted}
	m.state.registrations[name] = r
	spec := msg.Spec.WithDefaults()
	m.state.tree.add(gen, &spec)
	r.grouped = !m.state.tree.isEmpty()
	view := &View{Name: name, Gen: gen, Spec: &spec, State: supervisor.StateConnecting, Since: time.Now(), stats: m.rt.newStats(name)}
	view.stats.registered, view.rests, view.woken = view.Since, spec.Start == mcpvisor.StartLazy, new(atomic.Bool)
	if before := m.view(name); before != nil { // readers see the old catalog until the new server is ready
		view.last = before.knownCatalog()
	}
	m.rt.stats.Store(gen, view.stats)
	m.rt.desired.Store(gen, desired)
	m.setView(name, view)
	if msg.Accepted != nil {
		m.afterPublish(func() { msg.Accepted <- gen })
	}
	if msg.Known != nil {
		last, view.last = msg.Known, msg.Known
	}
	c.Send(m.servers, &messages.Start{Spec: &spec, Gen: gen, Last: last, Known: msg.Known != nil, Held: r.grouped, Halted: halted})
	if spec.StartSupervised {
		m.confirmRegister(r)
	}
}

// replace handles a Register of a name that is taken. An evicted server is replaced
// when it has been unregistered, and so is any other one if the message says Replace.
// Otherwise it keeps the name.
func (m *manager) replace(c actor.Context, msg *messages.Register, r *registration) {
	name := msg.Spec.Name
	if msg.Replace {
		if r.successor != nil {
			m.reply(r.successor.Reply, &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrExists, Hint: "a later specification of that name is registered instead"})
		}
		r.successor = nil
		switch b := r.beside; {
		case b == nil && m.mayOverlap(r, &msg.Spec):
			m.addBeside(c, msg, r)
			return
		case b != nil && !r.stopping: // there are never more than two
			r.successor = msg
			if b.candidate {
				m.reply(b.register, &mcpvisor.Error{Server: name, Gen: b.gen, Kind: mcpvisor.ErrExists, Hint: "a later specification of that name is registered instead"})
				b.register = nil
				m.stop(c, name, b, time.Time{})
			}
			return
		}
		r.successor = msg
		m.withdraw(name, r)
		m.stop(c, name, r, m.drainUntil(name))
		return
	}
	if v := m.view(name); !r.stopping && v != nil && v.Gen == r.gen && v.State == supervisor.StateEvicted {
		r.successor = msg
		m.stop(c, name, r, time.Time{})
		return
	}
	hint := "unregister it first, or choose another name"
	if r.stopping {
		hint = "its earlier registration is still being removed; try again when it has ended, or choose another name"
	}
	if r.successor != nil {
		hint = "another Register of that name is under way"
	}
	m.reply(msg.Reply, &mcpvisor.Error{Server: name, Gen: r.gen, Kind: mcpvisor.ErrExists, Hint: hint})
}

func (m *manager) unregister(c actor.Context, msg *messages.Unregister) {
	r := m.state.registrations[msg.Name]
	if r == nil || msg.Gen != 0 && msg.Gen != r.gen {
		m.reply(msg.Reply, &mcpvisor.Error{Server: msg.Name, Kind: mcpvisor.ErrUnknownServer})
		return
	}
	until := time.Time{}
	if msg.Drain {
		until = m.drainUntil(msg.Name)
	}
	r.unregister = append(r.unregister, msg.Reply)
	if msg.Gen == 0 && r.successor != nil {
		m.reply(r.successor.Reply, unregisteredError(msg.Name, r.gen))
		r.successor = nil
	}
	m.stop(c, msg.Name, r, until)
}

func (m *manager) stopAll(c actor.Context) {
	m.together(c, slices.Collect(maps.Keys(m.state.registrations)), func() {
		for name, r := range m.state.registrations {
			m.stop(c, name, r, time.Time{})
		}
	})
	m.finish()
}

// stop ends a registration, with a candidate and with one that it has replaced. Its tools leave the listing
// at once, and not when the process has ended. Until that time its calls in flight may end; a later stop
// without a time ends them at once.
func (m *manager) stop(c actor.Context, name string, r *registration, until time.Time) {
	if r.beside != nil {
		m.stop(c, name, r.beside, until)
	}
	if r.stopping && (r.drainUntil.IsZero() || !until.IsZero()) {
		return
	}
	r.stopping, r.stopSent, r.drainUntil = true, false, until
	m.withdraw(name, r)
	m.state.tree.membersChanged()
	m.sendStop(c, name, r)
}

// sendStop ends a server, unless another one ends before it.
func (m *manager) sendStop(c actor.Context, name string, r *registration) {
	switch {
	case r.supervisor == nil: // it is told when it is known
	case m.waitsToEnd(name):
		m.state.tree.waiting = true
	default:
		r.stopSent = true
		c.Send(r.supervisor, &messages.Stop{Closing: m.state.closing, Replaced: r.successor != nil || r.replaced, DrainUntil: r.drainUntil})
	}
}

// drainUntil is when calls in flight of a server must have ended if it is to end now.
func (m *manager) drainUntil(name string) time.Time {
	return time.Now().Add(m.view(name).Spec.Timeouts.Drain)
}

// operate passes an order on.
func (m *manager) operate(c actor.Context, msg *messages.Operate) {
	reply := func(err error) {
		if msg.Reply != nil {
			m.reply(msg.Reply, err)
		}
	}
	r := m.state.registrations[msg.Name]
	switch {
	case r == nil:
		reply(&mcpvisor.Error{Server: msg.Name, Kind: mcpvisor.ErrUnknownServer})
		return
	case r.stopping:
		reply(&mcpvisor.Error{Server: msg.Name, Gen: r.gen, Kind: mcpvisor.ErrClosed, Cause: errors.New("the server is being unregistered")})
		return
	case r.fence != nil:
		reply(fencedError(msg.Name, r))
		return
	case r.supervisor == nil && msg.Order == messages.OrderRestart:
		reply(nil) // its first start has only begun
		return
	case r.supervisor == nil:
		r.orders = append(r.orders, msg)
		return
	}
	order := &messages.OperateServer{Order: msg.Order, Cause: msg.Cause}
	switch {
	case msg.Reply == nil:
	case msg.Order == messages.OrderStop:
		r.stopped = append(r.stopped, msg.Reply)
	default:
		r.restart = append(r.restart, msg.Reply)
	}
	if msg.Drain {
		order.DrainUntil = m.drainUntil(msg.Name)
	}
	if r.halted = msg.Order == messages.OrderStop || r.halted && msg.Order != messages.OrderStart; msg.Order == messages.OrderStop {
		m.stopReplacement(c, msg.Name, r, order.DrainUntil)
	}
	c.Send(r.supervisor, order)
}

// fence ends a server at once. The replies follow when nothing of it is left: with a report
// that says so, or with the end of the registration.
func (m *manager) fence(c actor.Context, msg *messages.Fence) {
	r := m.state.registrations[msg.Name]
	if r == nil {
		m.reply(msg.Reply, &mcpvisor.Error{Server: msg.Name, Kind: mcpvisor.ErrUnknownServer})
		return
	}
	r.fencing = append(r.fencing, msg.Reply)
	for ; r != nil; r = r.beside {
		if r.fence == nil {
			r.fence = msg.Cause
		}
		if r.supervisor != nil {
			c.Send(r.supervisor, &messages.FenceServer{Cause: r.fence})
		}
	}
}

// sendDecided tells a supervising actor what was decided before its address was known, or
// before this manager. It may get it twice.
func (m *manager) sendDecided(c actor.Context, name string, r *registration) {
	if r.supervisor == nil {
		return
	}
	m.state.tree.membersChanged()
	if r.grouped && m.state.tree.isEmpty() {
		r.grouped = false
		c.Send(r.supervisor, &leaveGroup{})
	}
	if r.fence != nil {
		c.Send(r.supervisor, &messages.FenceServer{Cause: r.fence})
	}
	if r.stopping {
		m.sendStop(c, name, r)
	}
	orders := r.orders
	r.orders = nil
	for _, o := range orders {
		m.operate(c, o)
	}
}

// onReport publishes how a server stands, in one swap, then its events, and answers
// the callers that waited for that.
func (m *manager) onReport(c actor.Context, msg *report) {
	r := m.find(msg.name, msg.gen)
	if r == nil {
		m.rt.stale.Add(1)
		return
	}
	if r.supervisor == nil { // the first report may arrive before supervisorStarted
		r.supervisor = msg.from
		m.sendDecided(c, msg.name, r)
	}
	if msg.view.State == supervisor.StateUnregistered {
		m.remove(c, msg.name, r, msg.view.Cause, msg.events...)
		return
	}
	if main := m.state.registrations[msg.name]; r == main.beside && !m.promote(c, msg, r, main) {
		return
	}
	before, view := m.view(msg.name), m.viewOf(r, msg.view)
	m.setView(msg.name, view)
	if view.State == supervisor.StateReady {
		m.afterPublish(func() { m.rt.notifyPorts(view) })
	}
	if began := before == nil || before.State != view.State || before.Since != view.Since; began && view.waits != nil {
		t := &m.state.tree
		if names := notReady(msg.name, t.before[msg.name], t.needs[msg.name], t.status, m.view); len(names) > 0 {
			msg.events = append(msg.events, mcpvisor.Event{Kind: mcpvisor.EventWaiting, Time: time.Now(), Server: msg.name, Gen: view.Gen, Epoch: view.Epoch, WaitsFor: names})
		}
	}
	m.announce(msg.events)
	if view.State == supervisor.StateAsleep && view.Epoch > 0 && m.isNeeded(msg.name) { // one that comes after it has started meanwhile
		c.Send(r.supervisor, &messages.OperateServer{Order: messages.OrderWake})
	}
	if view.State == supervisor.StateReady || view.atRest() || view.State == supervisor.StateStopped {
		m.confirmRegister(r)
	}
	if msg.restarted && len(r.restart) > 0 {
		m.reply(r.restart[0], msg.refused)
		r.restart = r.restart[1:]
	}
	if r.beside == nil {
		left := m.rt.leftBehind.of(msg.name, r.gen)
		for ; r.stops < msg.stops && len(r.stopped) > 0; r.stops++ {
			m.reply(r.stopped[0], left)
			r.stopped = r.stopped[1:]
		}
		for ; msg.fenced && len(r.fencing) > 0; r.fencing = r.fencing[1:] {
			m.reply(r.fencing[0], left)
		}
	}
	for _, reply := range msg.replies {
		m.reply(reply, nil)
	}
}

func (m *manager) onSupervisorStarted(c actor.Context, msg *supervisorStarted) {
	if r := m.find(msg.name, msg.gen); r != nil {
		r.supervisor = msg.pid
		m.sendDecided(c, msg.name, r)
	}
}

// onSupervisorEnded handles a supervising actor that ended without a last report: it
// crashed. The name stays taken until the sessions are released.
func (m *manager) onSupervisorEnded(c actor.Context, msg *supervisorEnded) {
	r := m.find(msg.name, msg.gen)
	if r == nil || r.ended != nil {
		return
	}
	r.crashed, r.stopping = !r.stopping || r.crashed, true
	m.withdraw(msg.name, r)
	if !msg.released {
		return
	}
	cause := &supervisor.Cause{Kind: supervisor.CausePanic, Message: "internal error in the supervision of this server; see the log"}
	m.remove(c, msg.name, r, cause, mcpvisor.Event{Kind: mcpvisor.EventUnregistered, Time: time.Now(), Server: msg.name, Gen: msg.gen, Cause: cause})
}

// remove ends a registration: first the snapshot, then the events, then the replies. A
// successor takes its place in the same swap.
func (m *manager) remove(c actor.Context, name string, r *registration, cause *supervisor.Cause, events ...mcpvisor.Event) {
	switch main := m.state.registrations[name]; {
	case r != main:
		m.removeBeside(c, name, main, cause)
		return
	case r.beside != nil:
		r.ended = func(c actor.Context) { m.remove(c, name, r, cause, events...) }
		m.stop(c, name, r, r.drainUntil)
		return
	}
	next := r.successor
	r.successor = nil
	if next != nil && !m.state.closing {
		delete(m.state.registrations, name)
		desired := subscription.NewDesired()
		if next.Replace {
			desired = m.rt.desiredOf(r.gen)
		}
		var last *catalog.Catalog
		if v := m.view(name); v != nil {
			last = v.knownCatalog()
		}
		m.add(c, next, desired, last, next.Replace && r.halted)
	} else {
		m.setView(name, nil)
	}
	m.announce(events)
	left := m.rt.leftBehind.take(name, r.gen, m.state.closing)
	m.afterPublish(func() { r.answerAll(name, cause, left) })
	if next != nil && m.state.closing {
		m.reply(next.Reply, ClosedError(name))
	}
	if m.state.registrations[name] == r {
		delete(m.state.registrations, name)
	}
	m.rt.desired.Delete(r.gen)
	m.rt.releaseStats(r.gen)
	m.endNext(c)
	m.state.tree.remove(r.gen)
	m.finish()
}

// finish closes Runtime.drained when the last server is gone after CloseAll.
func (m *manager) finish() {
	if !m.state.closing || len(m.state.registrations) > 0 {
		return
	}
	m.afterPublish(func() {
		if !m.rt.Snapshot().closed {
			m.publish(newSnapshot(nil, true))
		}
		m.rt.drainedOnce.Do(func() { close(m.rt.drained) })
	})
}

// actorName is a name that no other actor ever has: a generation is used once.
func actorName(role, server string, gen uint64) string {
	return fmt.Sprintf("%s-%s.%d", role, server, gen)
}

// draft holds the changes made since the last snapshot, and what follows once they are
// published. When many servers change at once, one snapshot shows many changes, because each
// snapshot costs a copy of the list of all views. Owned by the current manager, as part of
// [managerState]: what a manager that crashed has not published, the next one publishes.
type draft struct {
	views  map[string]*View // the changed ones by name; nil for a removed server
	groups bool             // the status of a group has changed
	after  []func()         // events, then replies, in the order of the messages
}

// maxDraftMessages bounds how many messages a caller waits for beside its own.
const maxDraftMessages = 64

// view is the view of a server as the next snapshot shows it; nil if it has none.
func (m *manager) view(name string) *View {
	if v, changed := m.state.draft.views[name]; changed {
		return v
	}
	return m.rt.Snapshot().Server(name)
}

// setView replaces the view of a server in the next snapshot; nil removes it.
func (m *manager) setView(name string, v *View) {
	if m.state.draft.views == nil {
		m.state.draft.views = map[string]*View{}
	}
	m.state.draft.views[name] = v
}

// afterPublish has f called when everything that was changed so far is published. It is
// called after the functions of earlier calls.
func (m *manager) afterPublish(f func()) { m.state.draft.after = append(m.state.draft.after, f) }

// announce publishes events after the change that they are about.
func (m *manager) announce(events []mcpvisor.Event) {
	if len(events) > 0 {
		m.afterPublish(func() { m.rt.hub.Publish(events...) })
	}
}

// reply answers a caller after the change that the answer is about.
func (m *manager) reply(to chan<- error, err error) {
	m.afterPublish(func() { answer(to, err) })
}

// flush publishes the draft in one swap, and does what follows. It takes each part out before
// it runs it: one that crashes the manager is not tried again.
func (m *manager) flush() {
	d := &m.state.draft
	m.sendTree()
	if views := d.views; len(views) > 0 || d.groups {
		d.views, d.groups = nil, false
		m.publish(m.rt.Snapshot().withAll(views))
	}
	for len(d.after) > 0 {
		f := d.after[0]
		d.after[0] = nil
		d.after = d.after[1:]
		f()
	}
	d.after = nil
}

// publish replaces the snapshot and signals the change.
func (m *manager) publish(s *Snapshot) {
	if s.closed = m.state.closing; !s.closed || len(m.state.registrations) > 0 {
		s.groups = m.state.tree.status
	}
	old := m.rt.snapshot.Swap(s)
	close(old.next)
}

// withdraw publishes that a registration is being removed or replaced, and removes what
// the server offers from the listing, in one swap.
func (m *manager) withdraw(name string, r *registration) {
	v := m.view(name)
	if v == nil || v.Gen != r.gen {
		return
	}
	gone := *v
	gone.leaving, gone.replaced = true, r.successor != nil
	if v.Catalog != nil {
		gone.last, gone.Catalog, gone.State = v.Catalog, nil, supervisor.StateStopping
	}
	m.setView(name, &gone)
}

// viewOf completes a reported view. A server that is down keeps its last catalog for
// the names of its tools. One that is stopping offers nothing, whatever it reports.
func (m *manager) viewOf(r *registration, reported *View) *View {
	reported.leaving, reported.replaced = r.stopping, r.successor != nil
	reported.ending = r.ending
	if before := m.view(reported.Name); before != nil && reported.Catalog == nil && reported.last == nil {
		reported.last = before.knownCatalog()
	}
	if reported.State == supervisor.StateWaiting {
		reported.waits = m.waitsFor(reported.Name)
	}
	if reported.rests {
		reported.woken = new(atomic.Bool)
	}
	if reported.rests = reported.rests && !r.stopping; !r.stopping || reported.Catalog == nil {
		return reported
	}
	hidden := *reported
	hidden.last, hidden.Catalog, hidden.State = reported.Catalog, nil, supervisor.StateStopping
	return &hidden
}

// confirmRegister tells the caller of Register, if it still waits, that it has succeeded,
// after the change that the answer is about. A failure is told when the registration has
// ended: [registration.answerAll].
func (m *manager) confirmRegister(r *registration) {
	if r.register != nil {
		m.reply(r.register, nil)
		r.register = nil
	}
}
