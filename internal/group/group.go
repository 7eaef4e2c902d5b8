package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// InputKind names what happened to a group.
type InputKind string

const (
	// InputReport: a member reports.
	InputReport InputKind = "report"
	// InputAdded: the member Name is in the group, with what it reports. Each member of the configuration is
	// added once with its report; one that was started again, because it panicked, is added again.
	InputAdded InputKind = "added"
	// InputMembers: the configuration has these Members, in this order, from now on. Nothing is ordered until those that are new
	// are added.
	InputMembers InputKind = "members"
	// InputRemoved: the member Name has left the group. Nothing is ordered before the next input: what waits for a member that
	// leaves may leave, too.
	InputRemoved InputKind = "removed"
	// InputParent: an order of the parent; or of the operator, at the root.
	InputParent InputKind = "parent"
	// InputOutside: what Name, which a member comes after, and which is in another group, reports.
	InputOutside InputKind = "outside"
	// InputWanted: one that comes after the group wants its members that are at rest.
	InputWanted InputKind = "wanted"
	// InputRenew: the operator starts afresh what has failed.
	InputRenew InputKind = "renew"
	// InputTimer: the timer with Token fired; no timer has the token 0.
	InputTimer InputKind = "timer"
)

// Input is one input of [Group.Step].
type Input struct {
	Kind    InputKind
	Name    string
	Members []Member
	Report  Report
	Order   Order
	Seq     uint64 // of the parent's order; each is higher than the last
	Token   uint64
	Cause   *supervisor.Cause // of the parent's order
}

// EffectKind names something that the caller of [Group.Step] must do.
type EffectKind string

const (
	// EffectOrder: send Order with Seq and Cause to the member Name.
	EffectOrder EffectKind = "order"
	// EffectWake: tell Name, a member or a thing outside, that it is wanted.
	EffectWake EffectKind = "wake"
	// EffectSetTimer: feed InputTimer with Token after Delay.
	EffectSetTimer EffectKind = "set timer"
	// EffectReport: send Report to the parent, if there is one; and to the groups with members after this one.
	EffectReport EffectKind = "report"
	// EffectAnnounce: the group has failed, with Cause; Order says what followed: park or evict.
	EffectAnnounce EffectKind = "announce"
)

// Effect is one output of [Group.Step].
type Effect struct {
	Kind   EffectKind
	Name   string
	Order  Order
	Seq    uint64
	Cause  *supervisor.Cause
	Token  uint64
	Delay  time.Duration
	Report Report
}

// thing is a member, or something outside that a member comes after.
type thing struct {
	name   string
	report Report
	late   bool   // the bound has passed; those after it do not wait
	token  uint64 // of the timer for the bound; 0: none
	woken  bool   // and has not reported since
}

func (t *thing) take(r Report) {
	if t.report, t.woken = r, false; r.State == StateReady && r.Within == "" {
		t.late, t.token = false, 0
	}
}

// member is one member and what was ordered.
type member struct {
	thing
	Member

	seq    uint64 // of the last order
	sent   Order  // that order
	order  Order  // the last that was not OrderKeep
	known  uint64 // failures that were counted
	renew  bool   // its next start is afresh
	passed bool   // it was ready or settled since the group started: the order is kept
	stuck  bool   // it waits for something outside
	joins  bool   // it was added, and nothing was ordered since
	kept   bool   // its orders are those of this group

	// A member that must end before anything starts. goal is the order for it; ordered: it was sent.
	ending, ordered bool
	goal            Order
	why             *supervisor.Cause
}

// pending reports whether the last order is not answered.
func (m *member) pending() bool { return m.report.Seq < m.seq }

// state is what the member reported, or what the order that is under way makes of it.
func (m *member) state() State {
	switch {
	case !m.pending() || m.sent == OrderKeep:
		return m.report.State
	case m.sent.ends():
		return StateEnding
	}
	return StateStarting
}

// gone reports whether the member is a temporary one that has ended: the others do not notice.
func (m *member) gone() bool {
	s := m.state()
	return m.Restart == Temporary && (s == StateGivenUp || s == StateFailed) && !m.renew
}

// Group is the state machine of one group. It is not safe for concurrent use.
type Group struct {
	config  Config
	members []*member          // in order
	byName  map[string]*member // the same
	outside map[string]*thing
	missing map[string]bool // members of the configuration that have not reported

	told      *supervisor.Cause // of the failure that the group before this one has announced
	rebuilt   bool              // after a panic: orders of the group before this one may be on their way
	seq       uint64
	lastToken uint64
	parkToken uint64
	ends      lifecycle.Window // of the intensity

	held      bool  // by the parent
	order     Order // the last that was not OrderKeep
	orderSeq  uint64
	parentSeq uint64
	up        bool // all members were settled since the group started

	// spent is how the group has failed: OrderPark, OrderEvict or "". failed: all members have ended, and it was
	// announced. failures counts that for the parent, since its last hold.
	spent    Order
	failed   bool
	failures uint64
	cause    *supervisor.Cause

	reported *Report
	stale    uint64
	out      []Effect
}

// New makes a group. last is what a group before this one has reported last; nil if there was none. Orders are numbered
// from seq: a group that is made again after a panic begins at a higher number than the one before could reach. Nothing
// is ordered before each member of the configuration is added with its report.
func New(c Config, last *Report, seq uint64) *Group {
	last = cmp.Or(last, &Report{Held: !c.Root})
	g := &Group{config: c, held: last.Held, rebuilt: seq > 0, seq: seq, byName: map[string]*member{}, outside: map[string]*thing{}, missing: map[string]bool{}}
	if last.State != StateEnding { // then it is announced
		g.told = last.Cause
	}
	g.setMembers(c.Members)
	return g
}

// Stale counts the reports, orders and timers that came too late.
func (g *Group) Stale() uint64 { return g.stale }

// Step takes one input at time now and returns the effects that the caller must carry out, in order.
func (g *Group) Step(now time.Time, in Input) []Effect {
	g.out = nil
	switch in.Kind {
	case InputReport:
		if m := g.byName[in.Name]; m != nil {
			g.take(now, m, in.Report)
		}
	case InputMembers:
		g.setMembers(in.Members)
	case InputAdded:
		g.add(in)
	case InputRemoved:
		delete(g.byName, in.Name)
		delete(g.missing, in.Name)
		g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m.name == in.Name })
	case InputOutside:
		g.thing(in.Name).take(in.Report)
	case InputParent:
		g.obey(in)
	case InputWanted:
		for _, m := range g.members {
			if rules[g.seen(&m.thing)].need == wake {
				g.wake(&m.thing)
			}
		}
	case InputRenew:
		g.restart()
	case InputTimer:
		g.fire(in.Token)
	}
	if len(g.missing) == 0 && in.Kind != InputRemoved {
		g.takeIn(now)
		g.advance()
	}
	return g.out
}

func (g *Group) emit(e Effect) { g.out = append(g.out, e) }

// thing is the member, or the thing outside, with that name.
func (g *Group) thing(name string) *thing {
	if m := g.byName[name]; m != nil {
		return &m.thing
	}
	if g.outside[name] == nil {
		g.outside[name] = &thing{name: name}
	}
	return g.outside[name]
}

// take takes a report of a member that answers its last order.
func (g *Group) take(now time.Time, m *member, r Report) {
	if r.Seq < m.seq {
		g.stale++
		return
	}
	m.thing.take(r)
	failed := r.Failures > m.known
	n := r.Failures - m.known
	m.known = r.Failures
	if g.missing[m.name] || g.spent != "" || m.Restart == Temporary || g.config.Apart {
		return
	}
	if failed && !m.ending && !m.order.ends() {
		g.fail(now, m, n)
	}
	if r.State == StateGivenUp && r.Order != OrderEvict && !m.renew {
		g.giveUp(m, "is given up")
	}
}

// fail counts failures of a member, and applies the strategy.
func (g *Group) fail(now time.Time, m *member, n uint64) {
	for range n {
		if g.ends.Exceeded(now, g.config.Intensity) {
			g.giveUp(m, fmt.Sprintf("failed, the last of more than %d failures within %v", g.config.Intensity.Restarts, g.config.Intensity.Window))
			return
		}
	}
	g.restartWith(m, g.affected(m))
}

// affected are the members that the strategy restarts because of one: it may be among them.
func (g *Group) affected(m *member) []*member {
	switch g.config.Strategy {
	case supervisor.RestForOne:
		return g.members[slices.Index(g.members, m):]
	case supervisor.OneForAll:
		return g.members
	default:
		return nil
	}
}

func (g *Group) restartWith(m *member, others []*member) {
	g.drain(others, OrderHold, true, g.because(supervisor.CauseRestart, "restarts", m, "failed"))
}

// giveUp ends all members because the group has failed.
func (g *Group) giveUp(m *member, how string) {
	if g.spent != "" {
		return
	}
	does := "is parked"
	g.spent, g.failed, g.up = OrderPark, false, false
	if g.config.WhenSpent == supervisor.SpentEvict || g.config.Root && g.config.WhenSpent != supervisor.SpentPark {
		does, g.spent = "is evicted", OrderEvict
	}
	g.cause = g.because(supervisor.CauseRequested, does, m, how)
	g.drain(g.members, g.spent, false, g.cause)
}

// because is the cause of what a group does because of a member.
func (g *Group) because(kind supervisor.CauseKind, does string, m *member, how string) *supervisor.Cause {
	c := &supervisor.Cause{Kind: kind, Message: fmt.Sprintf("group %q %s: %q %s", g.config.Name, does, m.name, how)}
	if m.report.Cause != nil {
		c.Err = m.report.Cause
	}
	return c
}

// obey takes an order of the parent.
func (g *Group) obey(in Input) {
	if in.Seq <= g.parentSeq {
		g.stale++
		return
	}
	if g.parentSeq = in.Seq; in.Order == OrderKeep {
		return
	}
	g.order, g.orderSeq = in.Order, in.Seq
	switch {
	case in.Order == OrderHold || in.Order == OrderPark:
		g.held, g.up, g.failures = true, false, 0
		if g.spent == "" {
			g.drain(g.members, OrderHold, false, in.Cause)
		}
	case in.Order.ends():
		g.held = true // if an operator starts it afresh, it waits for its turn in the parent
		g.spent, g.failed, g.up, g.failures, g.cause, g.parkToken = OrderEvict, true, false, 0, in.Cause, 0
		g.drain(g.members, OrderEvict, false, in.Cause)
	case in.Order == OrderRenew:
		g.held = false
		g.restart()
	case g.held: // as in OTP, a supervisor that is started again knows nothing of before
		g.held, g.ends = false, lifecycle.Window{}
		for _, m := range g.members {
			m.renew = m.renew || m.Restart == Temporary
		}
	}
}

// restart begins afresh after a failure.
func (g *Group) restart() {
	g.spent, g.failed, g.cause, g.ends, g.parkToken = "", false, nil, lifecycle.Window{}, 0
	for _, m := range g.members {
		m.renew = true
	}
}

func (g *Group) fire(token uint64) {
	if token == 0 {
		return
	}
	if token == g.parkToken {
		g.restart()
		return
	}
	all := slices.Collect(maps.Values(g.outside))
	for _, m := range g.members {
		all = append(all, &m.thing)
	}
	i := slices.IndexFunc(all, func(t *thing) bool { return t.token == token })
	if i < 0 {
		g.stale++
		return
	}
	all[i].late, all[i].token = rules[g.seen(all[i])].need == bounded, 0
}

// Report is what the group reports to its parent.
func (g *Group) Report() Report {
	r := Report{Seq: g.parentSeq, OrderSeq: g.orderSeq, Order: g.order, State: g.state(), Held: g.held, Grouped: true, Failures: g.failures, Cause: g.cause}
	if r.State != StateReady || g.config.Root {
		return r
	}
	for _, m := range g.members {
		if s := g.seen(&m.thing); !m.gone() && rules[s].need > rules[cmp.Or(r.Within, StateReady)].need {
			r.Within = s
		}
	}
	return r
}

func (g *Group) state() State {
	ending, free, stuck := false, false, false
	for _, m := range g.members {
		ending = ending || m.ending
		free = free || !m.passed && !m.stuck
		stuck = stuck || m.stuck
	}
	switch {
	case (g.spent != "" || g.held) && ending:
		return StateEnding
	case g.spent == OrderEvict:
		return StateGivenUp
	case g.spent != "" && g.config.WhenSpent == supervisor.SpentPark:
		return StateDown
	case g.spent != "":
		return StateFailed
	case g.held:
		return StateWaiting
	case g.up:
		return StateReady
	case stuck && !free:
		return StateBlocked
	}
	return StateStarting
}
