package group_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// sim connects pure lifecycles and groups by messages. Each pair of sender and receiver has a queue; the sim
// delivers from the oldest message on, or from a random queue.
type sim struct {
	t       require.TestingT
	now     time.Time
	rnd     *rand.Rand // nil: in order
	servers map[string]*simServer
	groups  map[string]*simGroup
	parent  map[string]string
	users   map[string][]string // groups with members after this one
	names   []string            // of servers
	queues  []*queue
	timers  []simTimer
	trace   []string
	spent   []string // groups that announced a failure
	onStart func(x *simServer)
	onEnd   func(g *simGroup, e group.Effect) // an order that ends a member
	onEvent func()
}

type queue struct {
	from, to string
	sent     []func()
}

type simTimer struct {
	due  time.Time
	fire func()
}

type simServer struct {
	sim       *sim
	name      string
	policy    supervisor.Policy
	transient bool
	life      *lifecycle.Lifecycle
	link      group.Link
	halted    bool
	unwanted  bool
	revived   bool // the operator has started it when it was given up
	gone      bool // it is not registered
}

type simGroup struct {
	sim    *sim
	config group.Config
	all    []group.Member // those of the config, with the servers that are gone
	*group.Group
	gen    uint64
	report group.Report
	seen   map[string]group.State // what has reported it, and was not too late
	sent   map[string]uint64      // the number of the last order to a member
}

func newSim(t require.TestingT, tree []group.Config, policy func(m group.Member) supervisor.Policy, rnd *rand.Rand) *sim {
	s := &sim{t: t, now: time.Unix(1000, 0), rnd: rnd, servers: map[string]*simServer{}, groups: map[string]*simGroup{}, parent: map[string]string{}, users: map[string][]string{}}
	for _, c := range tree {
		s.groups[c.Name] = &simGroup{sim: s, config: c, all: c.Members, seen: map[string]group.State{}, sent: map[string]uint64{}}
		s.groups[c.Name].Group = group.New(c, nil, 0)
		for _, m := range c.Members {
			s.parent[m.Name] = c.Name
			for _, a := range m.After {
				s.users[a] = append(s.users[a], c.Name)
			}
			if !m.Group {
				s.servers[m.Name] = &simServer{sim: s, name: m.Name, policy: policy(m), transient: m.Restart == group.Transient}
				s.names = append(s.names, m.Name)
			}
		}
	}
	return s
}

// begin registers the servers, held, and adds every member to its group.
func (s *sim) begin(lazy map[string]bool) {
	for _, name := range s.names {
		x := s.servers[name]
		x.unwanted = lazy[name]
		x.register()
	}
	for _, g := range s.groups {
		for _, m := range g.config.Members {
			g.step(group.Input{Kind: group.InputAdded, Name: m.Name, Report: s.reportOf(m.Name)})
		}
	}
}

// register makes the lifecycle of a server, held; or a new one, when its actor has panicked.
func (x *simServer) register() {
	s := x.sim
	x.life, x.link = lifecycle.NewLifecycle(x.policy, true, nil), group.Link{}
	x.life.Transient = x.transient
	if x.unwanted {
		x.life.Step(s.now, lifecycle.Input{Kind: lifecycle.InputUnwanted})
	}
	if x.halted {
		x.life.Step(s.now, lifecycle.Input{Kind: lifecycle.InputHalt})
	}
	x.life.Step(s.now, lifecycle.Input{Kind: lifecycle.InputHold})
	x.life.Step(s.now, lifecycle.Input{Kind: lifecycle.InputRegister})
	s.tellUsers(x.name, group.ReportOf(x.life, &x.link))
}

// panics loses the lifecycle of a server and what is on its way to it.
func (x *simServer) panics() {
	s := x.sim
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return q.to == x.name })
	x.register()
	s.added(x.name)
}

func (s *sim) reportOf(name string) group.Report {
	if g := s.groups[name]; g != nil {
		return g.Report()
	}
	x := s.servers[name]
	return group.ReportOf(x.life, &x.link)
}

func (s *sim) send(from, to string, deliver func()) {
	for _, q := range s.queues {
		if q.from == from && q.to == to {
			q.sent = append(q.sent, deliver)
			return
		}
	}
	s.queues = append(s.queues, &queue{from, to, []func(){deliver}})
}

func (s *sim) after(d time.Duration, fire func()) {
	s.timers = append(s.timers, simTimer{s.now.Add(d), fire})
}

// deliver delivers one message, and reports whether there was one.
func (s *sim) deliver() bool {
	if len(s.queues) == 0 {
		return false
	}
	i := 0
	if s.rnd != nil {
		i = s.rnd.IntN(len(s.queues))
	}
	q := s.queues[i]
	first := q.sent[0]
	if q.sent = q.sent[1:]; len(q.sent) == 0 {
		s.queues = slices.Delete(s.queues, i, i+1)
	}
	first()
	if s.onEvent != nil {
		s.onEvent()
	}
	return true
}

// fire lets the earliest timer run out.
func (s *sim) fire() bool {
	if len(s.timers) == 0 {
		return false
	}
	i := 0
	for j, t := range s.timers {
		if t.due.Before(s.timers[i].due) {
			i = j
		}
	}
	t := s.timers[i]
	s.timers = slices.Delete(s.timers, i, i+1)
	if s.now.Before(t.due) {
		s.now = t.due
	}
	t.fire()
	if s.onEvent != nil {
		s.onEvent()
	}
	return true
}

// settle delivers everything and lets all timers run out, which no more are set.
func (s *sim) settle(most int) {
	for range most {
		if !s.deliver() && !s.fire() {
			return
		}
	}
	require.Fail(s.t, "it does not come to rest")
}

func (s *sim) tellUsers(name string, r group.Report) {
	for _, user := range s.users[name] {
		if g := s.groups[user]; s.parent[name] != user {
			s.send(name, user, func() { g.step(group.Input{Kind: group.InputOutside, Name: name, Report: r}) })
		}
	}
}

func (s *sim) tellParent(name string, r group.Report) {
	if g := s.groups[s.parent[name]]; g != nil {
		s.send(name, g.config.Name, func() { g.step(group.Input{Kind: group.InputReport, Name: name, Report: r}) })
	}
	s.tellUsers(name, r)
}

func (g *simGroup) step(in group.Input) {
	s := g.sim
	switch in.Kind {
	case group.InputAdded:
		g.seen[in.Name], g.sent[in.Name] = cmp.Or(in.Report.Within, in.Report.State), 0
	case group.InputReport, group.InputOutside:
		if in.Report.Seq >= g.sent[in.Name] {
			g.seen[in.Name] = cmp.Or(in.Report.Within, in.Report.State)
		}
	default:
	}
	for _, e := range g.Step(s.now, in) {
		name := g.config.Name
		switch e.Kind {
		case group.EffectOrder:
			g.sent[e.Name] = e.Seq
			if s.onEnd != nil && e.Order != group.OrderClear && e.Order != group.OrderRenew && e.Order != group.OrderKeep {
				s.onEnd(g, e)
			}
			if child := s.groups[e.Name]; child != nil {
				s.send(name, e.Name, func() {
					child.step(group.Input{Kind: group.InputParent, Order: e.Order, Seq: e.Seq, Cause: e.Cause})
				})
				continue
			}
			x := s.servers[e.Name]
			s.send(name, e.Name, func() {
				if in, ok := x.link.Take(x.life, e); ok {
					x.step(in)
					x.tell()
				}
			})
		case group.EffectWake:
			if x := s.servers[e.Name]; x != nil {
				s.send(name, e.Name, x.want)
				continue
			}
			s.send(name, e.Name, func() { s.groups[e.Name].step(group.Input{Kind: group.InputWanted}) })
		case group.EffectSetTimer:
			machine := g.Group
			s.after(e.Delay, func() {
				if machine == g.Group {
					g.step(group.Input{Kind: group.InputTimer, Token: e.Token})
				}
			})
		case group.EffectReport:
			g.report = e.Report
			s.tellParent(name, e.Report)
		case group.EffectAnnounce:
			s.spent = append(s.spent, name)
		}
	}
}

// panics loses the group and everything on its way to it, and makes it again.
func (g *simGroup) panics() {
	s, name, last := g.sim, g.config.Name, g.Report()
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return q.to == name })
	g.gen++
	g.Group = group.New(g.config, &last, g.gen<<32)
	for _, m := range g.config.Members {
		g.step(group.Input{Kind: group.InputAdded, Name: m.Name, Report: s.reportOf(m.Name)})
		for _, a := range m.After {
			if s.parent[a] != name {
				g.step(group.Input{Kind: group.InputOutside, Name: a, Report: s.reportOf(a)})
			}
		}
	}
	s.added(name)
}

// leave ends the registration of a server, and comeBack makes another one.
func (x *simServer) leave() {
	s := x.sim
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return q.to == x.name || q.from == x.name })
	x.life, x.gone = lifecycle.NewLifecycle(x.policy, true, nil), true
	g := s.groups[s.parent[x.name]]
	delete(g.seen, x.name)
	g.step(group.Input{Kind: group.InputRemoved, Name: x.name})
	g.setMembers()
	s.tellUsers(x.name, group.Report{})
}

func (x *simServer) comeBack() {
	x.gone = false
	x.sim.groups[x.sim.parent[x.name]].setMembers()
	x.register()
	x.sim.added(x.name)
}

// setMembers tells a group which members there are.
func (g *simGroup) setMembers() {
	g.config.Members = slices.Clone(g.all)
	g.config.Members = slices.DeleteFunc(g.config.Members, func(m group.Member) bool { x := g.sim.servers[m.Name]; return x != nil && x.gone })
	g.step(group.Input{Kind: group.InputMembers, Members: g.config.Members})
}

// added announces a member that was made again to its group.
func (s *sim) added(name string) {
	if g := s.groups[s.parent[name]]; g != nil {
		s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return q.from == name && q.to == g.config.Name })
		r := s.reportOf(name)
		s.send(name, g.config.Name, func() { g.step(group.Input{Kind: group.InputAdded, Name: name, Report: r}) })
	}
}

func (x *simServer) tell() { x.sim.tellParent(x.name, group.ReportOf(x.life, &x.link)) }

// step feeds the lifecycle. Its server answers by messages of its own.
func (x *simServer) step(in lifecycle.Input) {
	s, before, life := x.sim, group.ReportOf(x.life, &x.link), x.life
	for _, e := range x.life.Step(s.now, in) {
		epoch := e.Epoch
		answer := func(kind lifecycle.InputKind) {
			s.send(x.name, x.name, func() {
				if life == x.life {
					x.step(lifecycle.Input{Kind: kind, Epoch: epoch})
				}
			})
		}
		switch e.Kind {
		case lifecycle.EffectDial:
			s.trace = append(s.trace, "start "+x.name)
			if s.onStart != nil {
				s.onStart(x)
			}
			answer(lifecycle.InputOpened)
		case lifecycle.EffectDiscover:
			answer(lifecycle.InputDiscovered)
		case lifecycle.EffectEndSession:
			if in.Kind != lifecycle.InputDied && e.Cause.Asked() { // it did not end by itself
				s.trace = append(s.trace, "end "+x.name)
			}
			answer(lifecycle.InputReleased)
		case lifecycle.EffectArmRetry, lifecycle.EffectArmPark:
			s.after(e.Delay, func() {
				if life == x.life {
					x.step(lifecycle.Input{Kind: lifecycle.InputTimer, Token: e.Token})
				}
			})
		default:
		}
	}
	if r := group.ReportOf(x.life, &x.link); r.State != before.State || r.Held != before.Held || r.Failures != before.Failures {
		x.tell()
	}
}

// exit ends the process of a server by itself.
func (x *simServer) exit(code int) {
	x.step(lifecycle.Input{Kind: lifecycle.InputDied, Epoch: x.life.Epoch(), Cause: &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code, Message: "exit"}})
}

func (x *simServer) halt() {
	x.halted = true
	x.step(lifecycle.Input{Kind: lifecycle.InputHalt})
}

func (x *simServer) start() {
	x.halted, x.unwanted = false, false
	order := group.ReportOf(x.life, &x.link).Order
	x.revived = x.revived || x.life.State() == supervisor.StateEvicted || order == group.OrderEvict || order == group.OrderEnd
	x.step(lifecycle.Input{Kind: lifecycle.InputStart})
}

func (x *simServer) want() {
	x.unwanted = false
	x.step(lifecycle.Input{Kind: lifecycle.InputWanted})
}

func (x *simServer) idle() {
	x.unwanted = true
	x.step(lifecycle.Input{Kind: lifecycle.InputUnwanted})
}
