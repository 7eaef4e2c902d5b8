package actors

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/messages"
)

// setTree tells the actor groups which groups a client has, and which of their members are registered. The first config is
// that of the root, whose name is empty; it has what is in no other group. No configs: there is nothing to order.
type setTree struct {
	messages.Base
	configs []group.Config
	servers map[string]serverRef
	retell  bool // the manager wants to know how each group stands
}

// serverRef is the registration of a member.
type serverRef struct {
	gen uint64
	pid *actor.PID
}

// treeRequest asks the manager for the tree.
type treeRequest struct{ messages.Base }

// joinGroup tells a supervising actor that it is a member of a group. It answers with a memberReport.
type joinGroup struct {
	messages.Base
	token uint64 // of this place; orders and reports of another one are stale
	fresh bool   // of another group than before
}

// leaveGroup tells a supervising actor that it is in no group.
type leaveGroup struct{ messages.Base }

// groupOrder is an order of a group for a server.
type groupOrder struct {
	messages.Base
	token  uint64
	effect group.Effect
}

// memberReport is how a server stands, for its group.
type memberReport struct {
	messages.Base
	name   string
	gen    uint64
	token  uint64
	joined bool // it answers a joinGroup
	report group.Report
}

// groupEffect is what a group has decided.
type groupEffect struct {
	messages.Base
	name   string
	life   uint64
	effect group.Effect
}

// groupReport tells the manager how a group stands or, if failed, that it has failed.
type groupReport struct {
	messages.Base
	name   string
	report group.Report
	failed *group.Effect
}

// rebuildGroup starts the actor of a group again, after a pause; without a name, that of all groups.
type rebuildGroup struct {
	messages.Base
	name string
	life uint64
}

// renewGroup starts a group afresh.
type renewGroup struct {
	messages.Base
	name string
}

// groupNode is one group. life numbers its actors.
type groupNode struct {
	config   group.Config
	parent   string
	pid      *actor.PID
	life     uint64
	reported *group.Report // the last; nil before the first
	added    bool          // this actor has reported, so the parent has it as a member
	crashes  int
}

// place is the place of a server in the tree.
type place struct {
	serverRef
	group  string
	token  uint64
	report group.Report
	joined bool // the group has it as a member
}

// groupsState is what outlives an actor groups. Owned by the current one.
type groupsState struct {
	nodes   map[string]*groupNode
	servers map[string]*place
	// watchers has, by the name of a server or group, the other groups with a member that comes after it.
	watchers  map[string][]string
	lastToken uint64
	lastLife  uint64
}

// groups is the parent of the actors of the groups. It carries what groups and their members tell each other, so that a
// group needs no address of a member, and a member none of its group. One of them that ends is started again from what
// its members report.
//
// It owns groupsState.
type groups struct {
	rt    *Runtime
	state *groupsState
	ended bool // the actor is stopping
}

// Receive implements actor.Actor.
func (g *groups) Receive(c actor.Context) {
	if g.ended {
		return // messages still arrive while the groups stop; none may start one
	}
	switch m := c.Message().(type) {
	case *actor.Stopping:
		g.ended = true
	case *actor.Started:
		g.rt.groups.Store(c.Self())          // before a member can answer
		for name, n := range g.state.nodes { // the actor before this one has crashed, and its children with it
			g.spawn(c, name, n)
			g.rejoin(c, name)
		}
		g.rt.post(&treeRequest{})
	case *setTree:
		g.set(c, m)
	case *memberReport:
		g.onMemberReport(c, m)
	case *groupEffect:
		if n := g.state.nodes[m.name]; n != nil && n.life == m.life {
			g.execute(c, n, m.effect)
		}
	case *actor.Terminated:
		for name, n := range g.state.nodes {
			if n.pid != nil && n.pid.Id == m.Who.Id { // it crashed
				g.rebuildLater(c, name, n)
			}
		}
	case *renewGroup:
		g.input(c, m.name, group.Input{Kind: group.InputRenew})
	case *rebuildGroup:
		if n := g.state.nodes[m.name]; n != nil && n.life == m.life {
			g.spawn(c, m.name, n)
			g.rejoin(c, m.name)
		}
	}
}

// rebuildPause is the wait before the actor of a group, or of all, that has crashed more than once is started again.
func rebuildPause(crashes int) time.Duration {
	if crashes <= 1 {
		return 0
	}
	return backoff.Backoff{First: 10 * time.Millisecond, Max: 10 * time.Second}.Delay(crashes - 1)
}

func (g *groups) rebuildLater(c actor.Context, name string, n *groupNode) {
	n.pid = nil
	n.crashes++
	again, self := &rebuildGroup{name: name, life: n.life}, c.Self()
	time.AfterFunc(rebuildPause(n.crashes), func() { g.rt.send(self, again) })
}

// spawn starts an actor of a group. One that was started before continues what its members report.
func (g *groups) spawn(c actor.Context, name string, n *groupNode) {
	seq := uint64(0)
	if g.state.lastLife++; n.life > 0 {
		seq = g.state.lastLife << 32
	}
	n.life, n.added = g.state.lastLife, false
	a := &groupActor{rt: g.rt, groups: c.Self(), name: name, life: n.life, machine: group.New(n.config, n.reported, seq), timers: map[uint64]*time.Timer{}}
	n.pid, _ = c.SpawnNamed(g.rt.props("group", func() actor.Actor { return a }), fmt.Sprintf("%s-group-%s.%d", c.Self().Id, name, n.life))
}

// rejoin asks the members of a group that was started again for their reports.
func (g *groups) rejoin(c actor.Context, name string) {
	for _, p := range g.state.servers {
		if p.group == name {
			g.join(c, p, false)
		}
	}
	for _, n := range g.state.nodes {
		if n.parent == name && n.config.Name != "" && n.added {
			g.input(c, name, group.Input{Kind: group.InputAdded, Name: n.config.Name, Report: *n.reported})
		}
	}
	for thing, watchers := range g.state.watchers {
		if slices.Contains(watchers, name) {
			g.input(c, name, group.Input{Kind: group.InputOutside, Name: thing, Report: g.reportOf(thing)})
		}
	}
}

func (g *groups) join(c actor.Context, p *place, fresh bool) {
	g.state.lastToken++
	p.token, p.joined = g.state.lastToken, false
	c.Send(p.pid, &joinGroup{token: p.token, fresh: fresh})
}

// input feeds the machine of a group.
func (g *groups) input(c actor.Context, name string, in group.Input) {
	if n := g.state.nodes[name]; n != nil && n.pid != nil {
		c.Send(n.pid, &groupInput{in: in})
	}
}

// index is where a member stands in its group; -1 if it is in another one.
func (g *groups) index(of, name string) int {
	return slices.IndexFunc(g.state.nodes[of].config.Members, func(m group.Member) bool { return m.Name == name })
}

// reportOf is what a server or group has reported last.
func (g *groups) reportOf(name string) group.Report {
	if p := g.state.servers[name]; p != nil && p.joined {
		return p.report
	}
	if n := g.state.nodes[name]; n != nil && n.reported != nil {
		return *n.reported
	}
	return group.Report{}
}

// set makes the tree that of a message. A group of which more has changed than its members gets a new actor, which
// continues what the members report. A server that moves is told, and continues.
func (g *groups) set(c actor.Context, m *setTree) {
	s := g.state
	next, parent := map[string]group.Config{}, map[string]string{}
	for _, config := range m.configs {
		next[config.Name] = config
		for _, member := range config.Members {
			parent[member.Name] = config.Name
		}
	}
	left := map[string]bool{} // the groups that have lost a member
	for name, p := range s.servers {
		if ref, ok := m.servers[name]; !ok || ref.gen != p.gen || parent[name] != p.group {
			g.leave(c, name, p.group)
			left[p.group] = true
			if !ok || ref.gen != p.gen {
				delete(s.servers, name)
			}
		}
	}
	renewed := map[string]bool{}
	for name, n := range s.nodes {
		config, ok := next[name]
		if !ok || parent[name] != n.parent {
			g.leave(c, name, n.parent)
			left[n.parent] = true
		}
		wasEmpty := len(n.config.Members) == 0 && len(config.Members) > 0
		if wasEmpty { // it was ready, as there was nothing to wait for
			n.reported, n.life = nil, 0
		}
		if !ok || parent[name] != n.parent || wasEmpty || !sameGroup(n.config, config) {
			if n.pid != nil {
				pid := n.pid
				n.pid = nil // its end is wanted
				c.Stop(pid)
			}
			if ok {
				renewed[name] = true
			} else {
				delete(s.nodes, name)
			}
		}
	}
	for name, config := range next {
		n := s.nodes[name]
		if n == nil {
			n = &groupNode{}
			s.nodes[name], renewed[name] = n, true
		}
		if !renewed[name] && (left[name] || !reflect.DeepEqual(n.config.Members, config.Members)) { // before a new one reports
			g.input(c, name, group.Input{Kind: group.InputMembers, Members: config.Members})
		}
		if n.config, n.parent = config, parent[name]; m.retell && n.reported != nil {
			g.rt.post(&groupReport{name: name, report: *n.reported})
		}
	}
	watched := s.watchers
	g.watch()
	for name := range renewed {
		g.spawn(c, name, s.nodes[name])
	}
	for name, ref := range m.servers {
		switch p := s.servers[name]; {
		case p == nil:
			s.servers[name] = &place{serverRef: ref, group: parent[name]}
			g.join(c, s.servers[name], true)
		case p.group != parent[name]:
			p.group = parent[name]
			g.join(c, p, true)
		}
	}
	for name := range renewed {
		g.rejoin(c, name)
	}
	for thing, watchers := range s.watchers {
		for _, name := range watchers {
			if renewed[thing] || !slices.Contains(watched[thing], name) {
				g.input(c, name, group.Input{Kind: group.InputOutside, Name: thing, Report: g.reportOf(thing)})
			}
		}
	}
}

// sameGroup reports whether two configs of a group differ in nothing but its members.
func sameGroup(a, b group.Config) bool {
	a.Members, b.Members = nil, nil
	return reflect.DeepEqual(a, b)
}

// leave tells a group, and the groups with members after this one, that a member has left.
func (g *groups) leave(c actor.Context, name, of string) {
	g.input(c, of, group.Input{Kind: group.InputRemoved, Name: name})
	g.tellWatchers(c, name, group.Report{})
}

// watch sets the watchers.
func (g *groups) watch() {
	g.state.watchers = map[string][]string{}
	for name, n := range g.state.nodes {
		for _, m := range n.config.Members {
			for _, thing := range m.After {
				if g.index(name, thing) < 0 && !slices.Contains(g.state.watchers[thing], name) {
					g.state.watchers[thing] = append(g.state.watchers[thing], name)
				}
			}
		}
	}
}

func (g *groups) onMemberReport(c actor.Context, m *memberReport) {
	p := g.state.servers[m.name]
	if p == nil || p.gen != m.gen || p.token != m.token {
		g.rt.stale.Add(1)
		return
	}
	p.report = m.report
	g.pass(c, p.group, m.name, m.report, !p.joined)
	p.joined = true
}

// pass gives a report of a member to its group, and to those with members after it.
func (g *groups) pass(c actor.Context, to, name string, r group.Report, first bool) {
	kind := group.InputReport
	if first {
		kind = group.InputAdded
	}
	g.input(c, to, group.Input{Kind: kind, Name: name, Report: r})
	g.tellWatchers(c, name, r)
}

// tellWatchers gives a report to the groups with members that come after something in another group.
func (g *groups) tellWatchers(c actor.Context, name string, r group.Report) {
	for _, watcher := range g.state.watchers[name] {
		g.input(c, watcher, group.Input{Kind: group.InputOutside, Name: name, Report: r})
	}
}

// execute carries out what a group has decided.
func (g *groups) execute(c actor.Context, n *groupNode, e group.Effect) {
	name := n.config.Name
	server, nested := g.state.servers[e.Name], g.state.nodes[e.Name]
	switch {
	case e.Kind == group.EffectReport:
		if n.reported == nil || n.reported.State != e.Report.State || n.reported.Cause != e.Report.Cause {
			g.rt.post(&groupReport{name: name, report: e.Report})
		}
		if n.reported = &e.Report; !n.config.Root {
			g.pass(c, n.parent, name, e.Report, !n.added)
			n.added = true
		}
	case e.Kind == group.EffectAnnounce:
		g.rt.post(&groupReport{name: name, report: group.Report{}, failed: &e})
	case e.Kind == group.EffectWake && server != nil:
		c.Send(server.pid, &messages.OperateServer{Order: messages.OrderWake})
	case e.Kind == group.EffectWake:
		g.input(c, e.Name, group.Input{Kind: group.InputWanted})
	case e.Kind == group.EffectOrder && server != nil && server.group == name: // else it has moved meanwhile
		c.Send(server.pid, &groupOrder{token: server.token, effect: e})
	case e.Kind == group.EffectOrder && nested != nil && nested.parent == name:
		g.input(c, e.Name, group.Input{Kind: group.InputParent, Order: e.Order, Seq: e.Seq, Cause: e.Cause})
	}
}

// groupActor runs the state machine of one group.
//
// All fields are owned by the goroutine of the actor.
type groupActor struct {
	rt      *Runtime
	groups  *actor.PID
	name    string
	life    uint64
	machine *group.Group
	timers  map[uint64]*time.Timer // by token
	ended   bool                   // the actor is stopping
}

// groupInput is an input of a group.
type groupInput struct {
	messages.Base
	in group.Input
}

// Receive implements actor.Actor.
func (a *groupActor) Receive(c actor.Context) {
	if a.ended {
		return
	}
	switch m := c.Message().(type) {
	case *actor.Started: // one without members has nothing to wait for
		a.step(c, group.Input{Kind: group.InputTimer})
	case *groupInput:
		if m.in.Kind == group.InputTimer {
			delete(a.timers, m.in.Token)
		}
		a.step(c, m.in)
	case *actor.Stopping:
		a.ended = true
		for _, t := range a.timers {
			t.Stop()
		}
	}
}

func (a *groupActor) step(c actor.Context, in group.Input) {
	for _, e := range a.machine.Step(time.Now(), in) {
		if e.Kind != group.EffectSetTimer {
			c.Send(a.groups, &groupEffect{name: a.name, life: a.life, effect: e})
			continue
		}
		self, due := c.Self(), &groupInput{in: group.Input{Kind: group.InputTimer, Token: e.Token}}
		a.timers[e.Token] = time.AfterFunc(e.Delay, func() { a.rt.send(self, due) })
	}
}
