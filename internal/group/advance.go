package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// advance does what the facts allow: it ends members in reverse order; when all that must end have ended, it
// starts members in order.
func (g *Group) advance() {
	switch {
	case g.endNext():
	case g.spent != "":
		if !g.failed {
			g.failed = true
			g.failures++
			if g.cause != g.told {
				g.emit(Effect{Kind: EffectAnnounce, Order: g.spent, Cause: g.cause})
			}
			if g.spent == OrderPark && g.config.WhenSpent == supervisor.SpentPark {
				g.parkToken = g.setTimer(g.config.ParkEvery)
			}
		}
	case !g.held:
		g.startNext()
	}
	if r := g.Report(); g.reported == nil || *g.reported != r {
		g.reported = &r
		g.emit(Effect{Kind: EffectReport, Report: r})
	}
}

func (g *Group) setTimer(d time.Duration) uint64 {
	g.lastToken++
	g.emit(Effect{Kind: EffectSetTimer, Token: g.lastToken, Delay: d})
	return g.lastToken
}

func (g *Group) send(m *member, o Order, why *supervisor.Cause) {
	g.seq++
	m.seq, m.sent = g.seq, o
	switch {
	case o == OrderKeep:
	case o.ends():
		m.order, m.known = o, 0
	default:
		m.order, m.late, m.token, m.renew = o, false, 0, false
	}
	g.emit(Effect{Kind: EffectOrder, Name: m.name, Order: o, Seq: m.seq, Cause: why})
}

// drain marks members that must end before anything starts. restart: because of the strategy, which does not
// start temporary members again that were started.
func (g *Group) drain(members []*member, o Order, restart bool, why *supervisor.Cause) {
	for _, m := range members {
		goal := o
		if restart && m.Restart == Temporary && rules[m.state()].live {
			goal = OrderEnd
		}
		if m.ending && orders[m.goal].rank >= orders[goal].rank || !m.ending && (m.seq > 0 || !g.rebuilt) && m.hasEnded(goal) {
			m.passed = false
			continue
		}
		// An order of the same kind that is under way is not repeated.
		m.ordered = m.pending() && m.sent == goal || m.order == goal && m.report.State == StateEnding && m.report.Held
		m.ending, m.goal, m.why, m.passed = true, goal, why, false
	}
}

// hasEnded reports whether the order would change nothing: nothing runs, and nothing starts without an order.
func (m *member) hasEnded(o Order) bool {
	if m.pending() {
		return false
	}
	switch s := m.report.State; o {
	case OrderHold:
		return !rules[s].live && (m.report.Held || s == StateFailed || s == StateGivenUp || s == StateUnknown)
	case OrderEnd:
		return s == StateGivenUp || s == StateStopped || s == StateFailed
	case OrderEvict:
		return s == StateStopped && m.report.Held || s == StateGivenUp && (m.Restart == Temporary || m.report.Order == OrderEvict)
	default:
		return m.report.State == StateStopped && m.report.Held
	}
}

// endNext orders the end of members, from the last to the first: one that runs when all behind it have ended,
// one that does not run at once. It reports whether members are still ending.
func (g *Group) endNext() (busy bool) {
	for _, m := range slices.Backward(g.members) {
		if !m.ending {
			continue
		}
		if !m.ordered && (!busy || !rules[m.state()].runs) {
			m.ordered = true
			g.send(m, m.goal, m.why)
		}
		m.ending = !m.ordered || m.pending() || m.report.State == StateEnding
		busy = busy || m.ending
	}
	return busy
}

// startNext orders the start of each member that waits and may start, in order. It looks again when another member is stuck
// than before: one before it may come after it.
func (g *Group) startNext() {
	up, again := true, false
	for i, m := range g.members {
		was := m.stuck
		m.stuck = false
		if m.wants() {
			switch g.gate(i) {
			case pass:
				o := OrderClear
				if m.renew || m.report.State == StateFailed {
					o = OrderRenew
				}
				g.send(m, o, nil)
			case stay:
				m.stuck = true
			default:
			}
		}
		again = again || m.stuck != was
		m.passed = m.passed || m.late || !m.wants() && (m.gone() || rules[m.state()].settled)
		up = up && m.passed
	}
	if g.up = g.up || up; again {
		g.startNext()
	}
}

// wants reports whether the member would start and only the group can let it.
func (m *member) wants() bool {
	if m.pending() {
		return false
	}
	switch m.report.State {
	case StateWaiting:
		return true
	case StateFailed:
		return m.renew || m.Restart != Temporary
	case StateDown, StateGivenUp: // the end of its delay makes it wait: what it comes after may end before that
		return m.renew
	default:
	}
	return false
}

// gate says whether the member at index i may start, and else wakes what it comes after, and sets the timers of
// the bound.
func (g *Group) gate(i int) verdict {
	m, worst := g.members[i], pass
	var needed []*thing
	judge := func(t *thing) {
		v, p := rules[g.seen(t)].need, g.byName[t.name]
		starts := !t.woken && (p == nil || !p.wants())
		if v == bounded && starts && t.late {
			v = pass
		}
		if worst = max(worst, v); starts && (v == bounded || v == wake) {
			needed = append(needed, t)
		}
	}
	ordered := g.config.ordered()
	front := g.members[:i]
	if g.config.Parallel { // it may have thousands
		front = nil
	}
	for _, p := range front {
		if !p.gone() && (ordered || !p.passed && !p.stuck) {
			judge(&p.thing)
		}
	}
	for _, name := range m.After {
		if p := g.byName[name]; p == nil {
			judge(g.thing(name))
		} else if !p.gone() {
			judge(&p.thing)
		}
	}
	if worst == stay {
		return stay
	}
	for _, t := range needed {
		if rules[g.seen(t)].need == wake {
			g.wake(t)
		} else if t.token == 0 && g.config.StartBound > 0 {
			t.token = g.setTimer(g.config.StartBound)
		}
	}
	return worst
}

func (g *Group) wake(t *thing) {
	t.woken = true
	g.emit(Effect{Kind: EffectWake, Name: t.name})
}

// seen is the state of a thing for those that come after it.
func (g *Group) seen(t *thing) State {
	s := t.report.State
	if m := g.byName[t.name]; m != nil {
		switch s = m.state(); {
		case m.wants() && m.stuck:
			s = StateBlocked
		case m.wants():
			s = StateStarting
		}
	}
	if s == StateReady {
		s = cmp.Or(t.report.Within, s)
	}
	if t.woken && rules[s].need == wake {
		s = StateStarting
	}
	return s
}

// setMembers makes the members those of a list, in its order. New ones are missing until they are added.
func (g *Group) setMembers(members []Member) {
	g.members = make([]*member, len(members))
	for i, entry := range members {
		m := g.byName[entry.Name]
		if m == nil {
			m = &member{Member: entry, thing: thing{name: entry.Name}}
			g.byName[m.name], g.missing[m.name] = m, true
		}
		g.members[i], m.Member = m, entry
	}
}

// add notes the report of a member that is new, or was made again.
func (g *Group) add(in Input) {
	m := g.byName[in.Name]
	if m == nil {
		return // it has left meanwhile
	}
	again := !g.missing[m.name] || g.rebuilt && g.reported == nil
	m.report, m.seq, m.sent, m.order, m.woken = in.Report, 0, "", in.Report.Order, false
	m.known, m.ordered, m.joins, m.kept = in.Report.Failures, false, true, !again && in.Report.Grouped
	delete(g.missing, m.name)
}

// takeIn takes the members in that were added, when none is missing.
func (g *Group) takeIn(now time.Time) {
	if g.reported == nil {
		g.recover(now)
	}
	for _, m := range g.members {
		if m.joins {
			if g.join(m); !m.kept {
				g.keep(m)
			}
			m.joins = false
		}
	}
}

// join brings a member in line with a group that is held or has failed. One that was given up elsewhere starts again,
// but not where members share no fate.
func (g *Group) join(m *member) {
	switch {
	case g.spent != "":
		g.drain([]*member{m}, g.spent, false, g.cause)
	case g.held:
		g.drain([]*member{m}, OrderHold, false, nil)
	default:
	}
	m.renew = m.renew || m.report.State == StateGivenUp && m.Restart != Temporary && !g.config.Apart
}

// keep puts a member in this group, and makes the orders of an earlier one that are still on their way too late.
func (g *Group) keep(m *member) {
	if !m.ending && g.spent == "" {
		g.send(m, OrderKeep, nil)
	}
}

// recover continues what the members report, when all have reported: either the group is new, and they wait, or
// the group before this one has panicked, in the middle of anything.
func (g *Group) recover(now time.Time) {
	if !g.rebuilt && slices.ContainsFunc(g.members, func(m *member) bool { return rules[m.report.State].live && !m.report.Held }) {
		g.held = false // a new group of members that run
	}
	var last *member // the one with the newest order
	for _, m := range g.members {
		if last == nil || m.report.OrderSeq > last.report.OrderSeq {
			last = m
		}
	}
	if last != nil && !g.config.Apart && (last.report.Order == OrderPark || last.report.Order == OrderEvict) {
		g.giveUp(last, "has failed")
		if g.told != nil {
			g.cause = g.told
		}
		if g.spent != last.report.Order {
			g.spent = last.report.Order
			g.drain(g.members, g.spent, false, g.cause)
		}
		return
	}
	for _, m := range g.members {
		r := m.report
		if r.State == StateEnding && r.Order.ends() { // it is being ended
			m.ending, m.ordered, m.goal = true, true, r.Order
		}
		g.join(m)
		m.renew = m.renew || r.Order == OrderPark || r.Order == OrderEvict
		if r.State == StateGivenUp && r.Order != "" && r.Order != OrderEvict && m.Restart != Temporary && !g.config.Apart {
			g.giveUp(m, "is given up")
			return
		}
		if !g.config.ordered() || m.Restart == Temporary {
			continue
		}
		if r.Failures > 0 && !r.Order.ends() { // the group before this one has not dealt with it
			g.fail(now, m, r.Failures)
		}
		if r.Order == OrderHold && r.Held { // the restart that it was held for may not have reached all
			// One without an order was made again, too, and a temporary one may have been started by the operator. They
			// are as new, unless others show that the restart is not over.
			older := slices.DeleteFunc(slices.Clone(g.affected(m)), func(o *member) bool { return o.report.Held || o.report.OrderSeq >= r.OrderSeq })
			if slices.ContainsFunc(older, func(o *member) bool { return o.report.OrderSeq > 0 && o.Restart != Temporary }) {
				g.restartWith(m, older)
			}
		}
	}
}
