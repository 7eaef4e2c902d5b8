package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/internal/grouptree"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// tree is what the manager knows of the order of its servers. A client without groups, and without a server that comes
// after another one, has no tree: its servers are told nothing. Owned by the current manager, as part of [managerState].
type tree struct {
	groups []mcpvisor.Group       // with defaults
	after  map[uint64]bool        // generations with ServerSpec.After
	status []mcpvisor.GroupStatus // of groups, in their order

	changed   bool                // the actor groups must be told
	retell    bool                // groups are set: the actor groups says how they stand, also one that it never lost
	reordered bool                // what each server waits for must be looked at again
	ending    []string            // names that are about to be unregistered together
	waiting   bool                // the end of a registration waits for that of another one
	before    map[string][]string // of a server, those that end after it; nil: not known since the tree has changed
	behind    map[string][]string // the inverse
	needs     map[string][]string // those of before that must be ready each time it starts
}

func (t *tree) isEmpty() bool { return len(t.groups) == 0 && len(t.after) == 0 }

// dirty has the tree looked at again.
func (t *tree) dirty() { t.changed, t.reordered, t.before, t.behind = true, true, nil, nil }

// specChanged has the tree looked at again when another spec of a server is about to be published, if there is a tree.
func (t *tree) specChanged() {
	if !t.isEmpty() {
		t.dirty()
	}
}

// membersChanged has the actor groups told about a change of the members.
func (t *tree) membersChanged() { t.changed = t.changed || !t.isEmpty() }

// add and remove note a registration that is made or ends.
func (t *tree) add(gen uint64, spec *mcpvisor.ServerSpec) {
	if len(spec.After) > 0 {
		t.after[gen] = true
	}
	t.specChanged()
}

func (t *tree) remove(gen uint64) {
	t.membersChanged()
	delete(t.after, gen)
}

// setGroups handles SetGroups.
func (m *manager) setGroups(msg *messages.SetGroups) {
	if m.state.closing {
		m.reply(msg.Reply, ClosedError(""))
		return
	}
	if err := m.checkTree(msg.Groups, nil); err != nil {
		m.reply(msg.Reply, err)
		return
	}
	t := &m.state.tree
	before := t.status
	t.groups, t.status = nil, nil
	for _, g := range msg.Groups {
		g = g.WithDefaults()
		status := mcpvisor.GroupStatus{Name: g.Name, Strategy: g.Strategy, Members: g.Members, After: g.After, State: string(group.StateStarting)}
		if i := slices.IndexFunc(before, func(s mcpvisor.GroupStatus) bool { return s.Name == g.Name }); i >= 0 {
			status.State, status.Cause = before[i].State, before[i].Cause
		}
		for _, other := range msg.Groups {
			if slices.Contains(other.Members, g.Name) {
				status.Parent = other.Name
			}
		}
		t.groups, t.status = append(t.groups, g), append(t.status, status)
	}
	m.state.draft.groups, t.retell = true, true
	t.dirty()
	m.reply(msg.Reply, nil)
}

// checkTree refuses groups and a further server that do not fit together; spec may be nil.
func (m *manager) checkTree(groups []mcpvisor.Group, spec *mcpvisor.ServerSpec) error {
	if len(groups) == 0 && (spec == nil || len(spec.After) == 0) {
		return nil // the servers that are registered have been checked
	}
	name, specs := "", map[string]*mcpvisor.ServerSpec{}
	for name, r := range m.state.registrations {
		if v := m.view(name); v != nil {
			specs[name] = r.planned(v.Spec)
		}
	}
	if spec != nil {
		if r := m.state.registrations[spec.Name]; r != nil && r.beside == nil && m.mayOverlap(r, spec) {
			spec = afterBoth(spec, specs[spec.Name]) // it may fail, and the other one stay
		}
		name, specs[spec.Name] = spec.Name, spec
	}
	if err := grouptree.Check(groups, specs); err != nil {
		return &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	return nil
}

// planned is the spec by which a server is to run, with all that it may come after. spec is that of its view.
func (r *registration) planned(spec *mcpvisor.ServerSpec) *mcpvisor.ServerSpec {
	if b := r.beside; b != nil && b.candidate && !b.stopping { // either of the two may stay
		spec = afterBoth(b.spec, spec)
	}
	switch next := r.successor; {
	case next == nil:
	case r.stopping:
		spec = &next.Spec
	default: // it waits for the candidate
		spec = afterBoth(&next.Spec, spec)
	}
	return spec
}

// afterBoth is the first of two specs of a server, with what either of them comes after.
func afterBoth(a, b *mcpvisor.ServerSpec) *mcpvisor.ServerSpec {
	both := *a
	both.After = slices.Concat(a.After, b.After)
	return &both
}

// sendTree tells the actor groups about the tree, if it has changed. A server is in it from the time when its actor
// is known until its registration ends.
func (m *manager) sendTree() {
	t := &m.state.tree
	if !t.changed {
		return
	}
	if !t.isEmpty() {
		for _, r := range m.state.registrations {
			if r.supervisor == nil && !r.stopping {
				return // it is about to report itself; what is behind it must not start before
			}
		}
	}
	if t.reordered { // what servers wait for, too
		t.reordered = false
		for name := range m.state.registrations {
			if v := m.view(name); v != nil && v.waits != nil {
				again := *v
				again.waits = m.waitsFor(name)
				m.setView(name, &again)
			}
		}
	}
	msg := &setTree{servers: map[string]serverRef{}, retell: t.retell}
	t.changed, t.retell = false, false
	specs := map[string]*mcpvisor.ServerSpec{}
	for name, r := range m.state.registrations {
		switch {
		case r.supervisor == nil || r.stopping:
		case t.isEmpty():
			if r.grouped {
				r.grouped = false
				m.rt.send(r.supervisor, &leaveGroup{})
			}
		default:
			if v := m.view(name); v != nil {
				r.grouped = true
				specs[name], msg.servers[name] = v.Spec, serverRef{r.gen, r.supervisor}
			}
		}
	}
	if !t.isEmpty() {
		msg.configs = grouptree.Configs(t.groups, specs)
	}
	if groups := m.rt.groups.Load(); groups != nil {
		m.rt.send(groups, msg)
	}
}

// order computes which server ends before which other, of all that are registered.
func (t *tree) order(m *manager) {
	if t.before != nil {
		return
	}
	t.before, t.behind, t.needs = map[string][]string{}, map[string][]string{}, nil
	if t.isEmpty() {
		return
	}
	specs := map[string]*mcpvisor.ServerSpec{}
	for name := range m.state.registrations {
		if v := m.view(name); v != nil {
			specs[name] = v.Spec
		}
	}
	configs := grouptree.Configs(t.groups, specs)
	t.before, t.needs = group.Before(configs, true), group.Before(configs, false)
	for name, all := range t.before {
		for _, first := range all {
			t.behind[first] = append(t.behind[first], name)
		}
	}
}

// waitsToEnd reports whether a server that is to end waits for another one that ends before it.
func (m *manager) waitsToEnd(name string) bool {
	t := &m.state.tree
	if t.isEmpty() {
		return false
	}
	t.order(m)
	return slices.ContainsFunc(t.behind[name], func(other string) bool {
		r := m.state.registrations[other]
		return r != nil && (r.stopping || slices.Contains(t.ending, other))
	})
}

// waitsFor returns a function that names what a server comes after and is not ready when it is called.
func (m *manager) waitsFor(name string) func() []string {
	t, rt := &m.state.tree, m.rt
	t.order(m)
	before, needs := t.before[name], t.needs[name]
	return func() []string {
		s := rt.Snapshot()
		return notReady(name, before, needs, s.groups, s.Server)
	}
}

// notReady names what a server waits for: what it needs and, while its group starts, what starts before it.
func notReady(server string, before, needs []string, groups []mcpvisor.GroupStatus, view func(string) *View) (names []string) {
	starts := slices.ContainsFunc(groups, func(g mcpvisor.GroupStatus) bool {
		return g.State != string(group.StateReady) && slices.Contains(g.Members, server)
	})
	for _, name := range before {
		v := view(name)
		if isReady := v != nil && v.State == supervisor.StateReady; !isReady && (slices.Contains(needs, name) || starts && v.comes()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// endNext ends the servers that have waited for the end of another one.
func (m *manager) endNext(c actor.Context) {
	if !m.state.tree.waiting {
		return
	}
	m.state.tree.waiting = false
	for name, r := range m.state.registrations {
		for ; r != nil; r = r.beside {
			if r.stopping && !r.stopSent {
				m.sendStop(c, name, r)
			}
		}
	}
}

// together ends several servers by end: each before those that it comes after.
func (m *manager) together(c actor.Context, names []string, end func()) {
	t := &m.state.tree
	t.ending = names
	end()
	t.ending = nil
	m.endNext(c)
}

// unregisterAll handles UnregisterAll.
func (m *manager) unregisterAll(c actor.Context, msg *messages.UnregisterAll) {
	var names []string
	for _, u := range msg.All {
		names = append(names, u.Name)
	}
	m.together(c, names, func() {
		for _, u := range msg.All {
			m.unregister(c, u)
		}
	})
}

// mayRest lets a server sleep unless one that comes after it runs, or waits for it.
func (m *manager) mayRest(c actor.Context, msg *restRequest) {
	if r := m.find(msg.name, msg.gen); r != nil && !r.stopping && r.supervisor != nil && !m.isNeeded(msg.name) {
		c.Send(r.supervisor, &messages.Rest{Epoch: msg.epoch})
	}
}

// isNeeded reports whether a server that comes after another one runs, or is about to. One that is parked, or waits for
// what does not come by itself, is not: its group wakes the other one for its next start.
func (m *manager) isNeeded(name string) bool {
	t := &m.state.tree
	if t.isEmpty() {
		return false
	}
	t.order(m)
	cannotCome := func(name string) bool { v := m.view(name); return v == nil || !mayReturn(v.State) }
	for server, needs := range t.needs {
		if v := m.view(server); slices.Contains(needs, name) && v.comes() && v.State != supervisor.StateParked &&
			(v.State != supervisor.StateWaiting || !t.hasFailed(server) && !slices.ContainsFunc(needs, cannotCome)) {
			return true
		}
	}
	return false
}

// hasFailed reports whether a group around a server or group has failed, and has not started again.
func (t *tree) hasFailed(name string) bool {
	i := slices.IndexFunc(t.status, func(s mcpvisor.GroupStatus) bool { return slices.Contains(s.Members, name) })
	return i >= 0 && (slices.Contains([]string{"parked", string(group.StateFailed), string(group.StateGivenUp)}, t.status[i].State) || t.hasFailed(t.status[i].Name))
}

// onGroupReport publishes how a group stands.
func (m *manager) onGroupReport(msg *groupReport) {
	t := &m.state.tree
	switch i := slices.IndexFunc(t.groups, func(g mcpvisor.Group) bool { return g.Name == msg.name }); {
	case i < 0:
	case msg.failed != nil:
		m.announce([]mcpvisor.Event{{Kind: mcpvisor.EventGroupFailed, Time: time.Now(), Server: msg.name, Cause: msg.failed.Cause}})
	default:
		t.status = slices.Clone(t.status) // a snapshot has it
		t.status[i].State, t.status[i].Cause = groupState(msg.report), msg.report.Cause
		m.state.draft.groups = true
	}
}

// groupState is the state of a group as users see it.
func groupState(r group.Report) string {
	if r.State == group.StateDown {
		return "parked"
	}
	return string(r.State)
}

// ErrStopped is the cause of a request to a server that an operator has stopped.
var ErrStopped = errors.New("an operator has stopped the server; start it first")

// errAtRest is the cause of a request that wakes no server.
var errAtRest = errors.New("the server is asleep, and this does not wake it")
