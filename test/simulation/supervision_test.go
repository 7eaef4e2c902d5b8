package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A supervision is how the servers of a world depend on each other, and when they sleep. One world in three has one.
type supervision struct {
	seed    uint64
	rank    []int // the servers; each comes after earlier ones only, so that none waits for itself
	alone   bool  // no server comes after another one, and there are no groups
	early   bool  // a host knows its groups before its servers
	follows bool  // clients follow servers that may sleep, too
	rests   []bool

	trees []*tree // that the host was given; guarded by w.mu
}

// A tree is what SetGroups was given, when it was asked, and when it had answered.
type tree struct {
	groups     []mcpvisor.Group
	asked, set time.Time
}

const (
	settling   = 200 * time.Millisecond // until servers are ordered by a tree that was set
	sleepSlack = 2 * time.Second
)

func newSupervision(seed uint64) *supervision {
	r := rand.New(rand.NewPCG(seed, 3))
	if r.IntN(3) > 0 {
		return nil
	}
	s := &supervision{seed: seed, rank: r.Perm(servers), alone: r.IntN(4) == 0, early: r.IntN(2) == 0, follows: r.IntN(3) == 0}
	for range servers {
		s.rests = append(s.rests, r.IntN(3) > 0)
	}
	return s
}

// specify adds to a specification what a server comes after, and when it sleeps.
func (s *supervision) specify(spec *mcpvisor.ServerSpec, server, version int) {
	r := rand.New(rand.NewPCG(s.seed, uint64(1000+10*version+server)))
	for _, first := range s.rank[:slices.Index(s.rank, server)] {
		if !s.alone && r.IntN(3) == 0 {
			spec.After = append(spec.After, fmt.Sprintf("s%d", first))
		}
	}
	if !s.rests[server] {
		return
	}
	spec.Standby = false
	if r.IntN(2) == 0 {
		spec.Start = mcpvisor.StartLazy
	}
	if spec.Start == mcpvisor.StartEager || r.IntN(3) > 0 {
		spec.IdleStop = time.Second + time.Duration(r.IntN(2000))*time.Millisecond
	}
}

// tree makes groups that are in the order of the ranks.
func (s *supervision) tree(n int) []mcpvisor.Group {
	r := rand.New(rand.NewPCG(s.seed, uint64(2000+n)))
	if s.alone {
		return nil
	}
	a, b, c := fmt.Sprintf("s%d", s.rank[0]), fmt.Sprintf("s%d", s.rank[1]), fmt.Sprintf("s%d", s.rank[2])
	group := func(name string, members ...string) mcpvisor.Group {
		g := mcpvisor.Group{Name: name, Members: members, ParkEvery: 2 * time.Second}
		g.Strategy = []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll}[r.IntN(3)]
		g.WhenSpent = []supervisor.WhenSpent{supervisor.SpentPark, supervisor.SpentEvict, supervisor.SpentParent}[r.IntN(3)]
		if r.IntN(3) == 0 {
			g.Intensity = supervisor.Intensity{Restarts: 1 + r.IntN(3), Window: 10 * time.Second}
		}
		if r.IntN(5) == 0 {
			g.StartBound = 500 * time.Millisecond
		}
		return g
	}
	inner := func(members ...string) mcpvisor.Group {
		g := group("inner", members...)
		g.Temporary = r.IntN(6) == 0
		return g
	}
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []mcpvisor.Group{group("g", a, b, c)}
	case 2:
		return []mcpvisor.Group{group("g", a, c)}
	case 3:
		g := group("g", b, c)
		g.After = []string{a}
		return []mcpvisor.Group{g}
	case 4:
		h := group("h", c)
		h.After = []string{"g"}
		return []mcpvisor.Group{group("g", a, b), h}
	case 5:
		return []mcpvisor.Group{group("g", "inner", c), inner(a, b)}
	case 6:
		return []mcpvisor.Group{group("g", a, "inner"), inner(b, c)}
	}
	return []mcpvisor.Group{group("g", b, c), group("h", a)}
}

// superviseSchedule adds what supervision is about to the schedule of a seed.
func superviseSchedule(seed uint64, all []event) []event {
	if newSupervision(seed) == nil {
		return all
	}
	r := rand.New(rand.NewPCG(seed, 4))
	if r.IntN(2) == 0 { // with less to do, servers sleep
		all = slices.DeleteFunc(all, func(event) bool { return r.IntN(3) > 0 })
	}
	faults := map[string]string{}
	for i, e := range all { // calls with the same key have the same plan
		if _, ok := faults[e.Plan.ID]; !ok {
			faults[e.Plan.ID] = e.Plan.Fault
			if r.IntN(12) == 0 {
				faults[e.Plan.ID] = []string{"halt", "start", "groups"}[r.IntN(3)]
			}
		}
		all[i].Plan.Fault = faults[e.Plan.ID]
	}
	at := func() time.Duration { return time.Duration(r.IntN(20_000)) * time.Millisecond }
	add := func(kind string, at time.Duration, server int, odd int) {
		all = append(all, event{At: at, Kind: kind, Server: server, N: r.IntN(20), For: time.Duration(odd) * time.Millisecond})
	}
	for range r.IntN(6) {
		add("groups", at(), 0, 0)
	}
	for range r.IntN(5) {
		halted, server, odd := at(), r.IntN(servers), r.IntN(4)
		add("halt", halted, server, odd)
		if r.IntN(4) > 0 {
			add("start", halted+time.Duration(r.IntN(4000))*time.Millisecond, server, odd)
		}
	}
	for range r.IntN(3) {
		add("start", at(), r.IntN(servers), r.IntN(4))
	}
	for range r.IntN(5) { // servers that are replaced leave their groups, and come back
		add([]string{"apply", "again"}[r.IntN(2)], at(), r.IntN(servers), r.IntN(4))
	}
	return all
}

// setGroups gives the host the groups with a number.
func (w *world) setGroups(ctx context.Context, n int) error {
	t := &tree{groups: w.supervision.tree(n), asked: time.Now()}
	w.mu.Lock()
	c := w.host
	w.supervision.trees = append(w.supervision.trees, t)
	counts["groups set"]++
	w.mu.Unlock()
	err := c.SetGroups(ctx, t.groups)
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.set = time.Now(); errors.Is(err, mcpvisor.ErrInvalid) {
		w.failLocked("groups that are in order are refused: %v", err)
	}
	return err
}

// target is the server of an event, or a group that has it, with the servers in it.
func (w *world) target(e event) (name string, members []*server) {
	s := w.servers[e.Server]
	w.mu.Lock()
	defer w.mu.Unlock()
	trees := w.supervision.trees
	if !e.odd() || len(trees) == 0 {
		return s.name, []*server{s}
	}
	groups := trees[len(trees)-1].groups
	for _, g := range groups {
		if all := serversOf(groups, g.Name); slices.Contains(all, s.name) && (name == "" || e.N%2 == 0) {
			name, members = g.Name, nil
			for _, m := range all {
				members = append(members, w.servers[m[1]-'0'])
			}
		}
	}
	if name == "" {
		return s.name, []*server{s}
	}
	return name, members
}

// halt stops a server or group. From then on only what w.revive notes runs its servers.
func (w *world) halt(ctx context.Context, e event) error {
	name, members := w.target(e)
	w.mu.Lock()
	c, trees := w.host, len(w.supervision.trees)
	known := name[0] == 's' || !w.supervision.trees[trees-1].set.IsZero() // who is in the group
	var revivals []int
	for _, s := range members {
		n := s.revivals
		if !s.registered || s.starts > 0 { // it is being registered, replaced or started, which may come after the order
			n = -1
		}
		revivals = append(revivals, n)
	}
	w.mu.Unlock()
	var options []facade.EndOption
	if e.N%3 == 0 {
		options = append(options, facade.WithDrain())
	}
	began := time.Now()
	err := c.Stop(ctx, name, options...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if took := time.Since(began); took > 20*time.Second && w.host == c {
		w.failLocked("stop of %s took %v: %v", name, took, err)
	}
	if err != nil || w.host != c || len(w.supervision.trees) != trees || !known {
		return err
	}
	for i, s := range members {
		if s.revivals != revivals[i] || !s.registered {
			continue
		}
		s.halted = time.Now()
		counts["stops by the operator"]++
		if s.http == nil && s.name != w.copied && len(s.lives) > 0 {
			w.failLocked("%s is stopped, and incarnation %d of it runs", s.name, s.lives[0].number)
		}
	}
	return nil
}

// startAgain starts a server or group.
func (w *world) startAgain(ctx context.Context, e event) error {
	name, _ := w.target(e)
	note := func(starts int) *facade.Client {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, s := range w.servers { // a group may be another one by now
			if name[0] != 's' || i == e.Server {
				s.reviveLocked()
				s.want(0)
				s.starts += starts
			}
		}
		return w.host
	}
	c := note(1)
	defer note(-1)
	return c.Start(ctx, name)
}

// reviveLocked notes that something other than a restart may run a server that was stopped; s.w.mu is locked.
func (s *server) reviveLocked() {
	s.revivals++
	s.halted = time.Time{}
}

// want notes that something wants the server: from now on (1), until now (-1), or now (0); s.w.mu is locked.
func (s *server) want(n int) {
	s.wants += n
	s.wanted = time.Now()
}

// serversOf are the servers in a group, also in groups in it.
func serversOf(groups []mcpvisor.Group, name string) (all []string) {
	i := slices.IndexFunc(groups, func(g mcpvisor.Group) bool { return g.Name == name })
	if i < 0 {
		return []string{name}
	}
	for _, m := range groups[i].Members {
		all = append(all, serversOf(groups, m)...)
	}
	return all
}

// comesAfter returns what must be ready when a server starts (now), and what must have been ready before (once).
func comesAfter(server string, after []string, groups []mcpvisor.Group) (now, once []string) {
	add := func(all ...string) {
		for _, name := range all {
			if members := serversOf(groups, name); len(members) == 1 && members[0] == name {
				now = append(now, name)
			} else {
				once = append(once, members...)
			}
		}
	}
	add(after...)
	spent := false
	for _, g := range groups {
		spent = spent || g.Intensity.Window > 0
	}
	for name, direct := server, true; ; direct = false {
		i := slices.IndexFunc(groups, func(g mcpvisor.Group) bool { return slices.Contains(g.Members, name) })
		if i < 0 {
			break
		}
		g := groups[i]
		if g.StartBound > 0 {
			return nil, nil // it may start without what it comes after
		}
		add(g.After...)
		for _, m := range g.Members[:slices.Index(g.Members, name)] {
			if direct && g.Strategy != supervisor.OneForOne {
				add(m)
			} else {
				once = append(once, serversOf(groups, m)...)
			}
		}
		name = g.Name
	}
	if spent { // what comes after a group that has failed may start without it
		once = nil
	}
	return now, once
}

// effective are the trees that the host may follow now; w.mu is locked.
func (s *supervision) effective() (all []*tree) {
	for i, t := range s.trees {
		if !slices.ContainsFunc(s.trees[i+1:], func(next *tree) bool {
			return !t.set.IsZero() && next.asked.After(t.set) && !next.set.IsZero() && time.Since(next.set) > settling
		}) {
			all = append(all, t)
		}
	}
	return all
}

// judgeBegin looks whether an incarnation in memory may begin; w.mu is locked.
func (w *world) judgeBegin(l *life, disk *store) {
	s, sup := l.s, w.supervision
	if sup == nil || disk != w.disk {
		return
	}
	if !s.halted.IsZero() {
		w.failLocked("incarnation %d of %s begins at %v, which was stopped at %v", l.number, s.name, time.Since(w.began), s.halted.Sub(w.began))
	}
	if s.name == w.copied {
		return // a copy needs no other server
	}
	recent := func(o *life) bool { return o != l && (o.ended.IsZero() || time.Since(o.ended) < settling) }
	if l.from.spec.Standby && slices.ContainsFunc(s.past, recent) {
		return // it is in reserve
	}
	all := sup.effective()
	for i, t := range all {
		now, once := comesAfter(s.name, l.from.spec.After, t.groups)
		for _, first := range append(now, once...) {
			sure := !slices.ContainsFunc(all[i+1:], func(other *tree) bool {
				n, o := comesAfter(s.name, l.from.spec.After, other.groups)
				return !slices.Contains(append(n, o...), first) || slices.Contains(now, first) && !slices.Contains(n, first)
			})
			f := w.servers[first[1]-'0']
			if i > 0 || !sure || !f.registered || time.Since(f.registeredAt) < settling {
				continue
			}
			strict := slices.Contains(now, first)
			if !strict && f.disturbed {
				continue
			}
			counts["begins in order"]++
			if !f.hasBeenReady(strict, disk) {
				w.failLocked("incarnation %d of %s begins at %v, before %s, which it comes after (now %v, once %v)", l.number, s.name, time.Since(w.began), first, now, once)
			}
		}
	}
}

// hasBeenReady reports whether an incarnation may have been ready: for the host, or strictly, now. w.mu is locked.
func (s *server) hasBeenReady(now bool, disk *store) bool {
	return slices.ContainsFunc(s.past, func(l *life) bool {
		switch {
		case s.http != nil && l.listed.Before(disk.began), s.http == nil && (l.disk != disk || l.listed.IsZero()):
			return false
		}
		// The host may not have noticed that the next incarnation is another one, if it is over HTTP.
		return !now || s.http != nil || l.ended.IsZero() || time.Since(l.ended) < settling/10
	})
}

// use notes that the incarnation is used until then; w.mu is locked.
func (l *life) use(until time.Duration) {
	l.judgeSleep()
	l.used = true
	if end := time.Now().Add(until); end.After(l.idle) {
		l.idle = end
	}
}

// judgeSleep: a server that nothing wants sleeps. One that others come after may have to run for them. w.mu is locked.
func (l *life) judgeSleep() {
	s, w := l.s, l.s.w
	sup := w.supervision
	if sup == nil || l.from == nil || l.disk != w.disk || s.name == w.copied || sup.follows || !l.ended.IsZero() || l.listed.IsZero() || w.closing || !sup.alone && sup.rank[servers-1] != s.index {
		return
	}
	spec := l.from.spec
	if spec.IdleStop > 0 && len(l.tasks.byID) == 0 { // a task is use for as long as its caller may ask for it again
		counts["idle incarnations"]++
		if over := time.Since(l.idle); over > 2*spec.IdleStop+sleepSlack {
			w.failLocked("incarnation %d of %s, which sleeps after %v, runs unused for %v", l.number, s.name, spec.IdleStop, over)
		}
	}
	if spec.Start == mcpvisor.StartLazy && !l.used && s.wants == 0 && s.wanted.Before(l.from.asked) {
		counts["unwanted incarnations"]++
		if time.Since(l.listed) > sleepSlack {
			w.failLocked("incarnation %d of %s, which is lazy, runs unwanted for %v", l.number, s.name, time.Since(l.listed))
		}
	}
}

// judgeRest: no call fails because its server sleeps; w.mu is locked.
func (w *world) judgeRest() {
	for _, a := range w.answers {
		if a.err != nil && strings.Contains(a.err.Error(), "it starts when it is wanted") {
			w.failLocked("%s fails because its server sleeps: %v", a.event, a.err)
		}
	}
	for _, x := range w.ledger {
		for _, a := range w.answers {
			if a.Plan.ID == x.ID && a.Key == "" && !x.Halted.IsZero() && a.began.After(x.Halted) {
				w.failLocked("%s began at %v and was executed by %s, which was stopped at %v", a.event, a.began.Sub(w.began), x.Server, x.Halted.Sub(w.began))
			}
		}
	}
}

// settleSupervision starts what was stopped or has failed.
func (w *world) settleSupervision(ctx context.Context) {
	if w.supervision == nil {
		return
	}
	w.mu.Lock()
	c := w.host
	for _, s := range w.servers {
		s.reviveLocked()
		s.want(0)
	}
	w.mu.Unlock()
	for _, s := range w.servers {
		if err := c.Start(ctx, s.name); err != nil && !errors.Is(err, mcpvisor.ErrUnknownServer) && !errors.Is(err, mcpvisor.ErrEvicted) {
			w.fail("start of %s: %v", s.name, err)
		}
	}
	for _, g := range c.Groups() {
		if err := c.Start(ctx, g.Name); err != nil && !errors.Is(err, mcpvisor.ErrEvicted) {
			w.fail("start of group %s: %v", g.Name, err)
		}
	}
	time.Sleep(5 * time.Second)
}

// settleSleep: when all is ready, the groups are; a server that sleeps answers a call.
func (w *world) settleSleep(ctx context.Context) {
	if w.supervision == nil {
		return
	}
	c := w.current()
	for _, g := range c.Groups() {
		if g.State != "ready" {
			w.fail("all servers have been ready, and group %s is %s: %v", g.Name, g.State, g.Cause)
		}
	}
	time.Sleep(10 * time.Second)
	for i, s := range w.servers {
		if st, _ := c.ServerStatus(s.name); st.State == supervisor.StateAsleep {
			w.mu.Lock()
			counts["calls that wake"]++
			w.mu.Unlock()
		}
		if s.http == nil {
			for _, l := range s.all() {
				w.mu.Lock()
				l.judgeSleep()
				w.mu.Unlock()
			}
		}
		id := fmt.Sprintf("wakes-%d", i)
		result, err := c.CallTool(ctx, s.name+"/do", plan{ID: id, Form: "plain"})
		if err != nil || len(result.Content) != 1 || !isOf(result.Content[0], id) {
			w.fail("a call of %s, which may sleep, has failed: %v", s.name, err)
		}
	}
}
