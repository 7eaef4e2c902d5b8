package actors

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// draft is what the messages that were handled since the last snapshot change, and what
// follows once that is published. When many servers change at once, one snapshot shows
// many changes: each costs a copy of the map of all servers. Owned by the current
// manager, as part of [managerState]: what a manager that crashed has not published, the
// next one publishes.
type draft struct {
	views map[string]*View // the changed ones by name; nil for a removed server
	after []func()         // events, then replies, in the order of the messages
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

// flush publishes the draft in one swap, and does what follows. It removes each part
// first: one that crashes the manager is not tried again.
func (m *manager) flush() {
	d := &m.state.draft
	if views := d.views; len(views) > 0 {
		d.views = nil
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
	s.closed = m.state.closing
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
	if before := m.view(reported.Name); before != nil && reported.Catalog == nil {
		reported.last = before.knownCatalog()
	}
	if !r.stopping || reported.Catalog == nil {
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
