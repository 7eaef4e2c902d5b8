package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/lock"
	"github.com/mcpvisor/mcpvisor/rules"
)

// A trust is what the hosts of a world compare lists with, and how they decide about calls. One world in three has one. Lock file and
// rules outlive a host.
type trust struct {
	seed uint64
	lock lock.Guard
	gate *rules.Gate

	// guarded by w.mu
	rulings   []ruling
	approvals map[string][]approval // by the id of the plan
}

// A ruling is a set of rules from a time on.
type ruling struct {
	from time.Time
	all  []rules.Rule
}

type approval struct {
	at                      time.Time
	principal, server, tool string
}

const (
	askedFor = 3 * time.Second // how long an asker may think
	relisted = time.Second     // until a list that was answered counts
)

func newTrust(w *world, seed uint64) *trust {
	if rand.New(rand.NewPCG(seed, 5)).IntN(3) > 0 {
		return nil
	}
	t := &trust{seed: seed, approvals: map[string][]approval{}}
	locked := &lock.File{Servers: map[string]*lock.Server{}}
	for i := range servers {
		s := &lock.Server{Tools: map[string]json.RawMessage{"do": json.RawMessage(tool("do", ""))}}
		for n := range 4 {
			name := fmt.Sprintf("extra%d", n)
			s.Tools[name] = json.RawMessage(tool(name, ""))
		}
		locked.Servers[fmt.Sprintf("s%d", i)] = s
	}
	text, err := locked.Encode()
	if err == nil {
		locked, err = lock.Parse(text)
	}
	if err != nil {
		panic(err)
	}
	t.lock.Set(lock.Enforce, locked, nil, nil)
	t.gate = rules.NewGate(t.asker(w), rules.Options{Wait: askedFor, Valid: 2 * time.Second})
	return t
}

// tool is an entry of a list of tools.
func tool(name, more string) string {
	if name == "do" {
		more += `,"execution":{"taskSupport":"optional"}`
	}
	return `{"name":"` + name + `","inputSchema":{"type":"object"}` + more + `}`
}

const drifted = `,"description":"drifted"`

// asker decides by the id of a call.
func (t *trust) asker(w *world) rules.Asker {
	return func(ctx context.Context, q rules.Question) (rules.Decision, error) {
		var p plan
		if err := json.Unmarshal(q.Arguments, &p); err != nil || p.ID == "" {
			w.fail("a person is asked about %s", q.Arguments)
		}
		h := fnv.New32()
		_, _ = h.Write([]byte(p.ID))
		switch h.Sum32() % 8 {
		case 0:
			return rules.Decision{Reason: "no"}, nil
		case 1:
			<-ctx.Done()
			return rules.Decision{Approve: true}, context.Cause(ctx) // too late
		case 2:
			panic("the asker is lost")
		case 3, 4:
			sleep(ctx, time.Duration(h.Sum32()>>8%2000)*time.Millisecond)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		counts["approvals"]++
		t.approvals[p.ID] = append(t.approvals[p.ID], approval{time.Now(), q.Principal, q.Server, q.Tool})
		return rules.Decision{Approve: true}, nil
	}
}

// options are those of each host.
func (t *trust) options() []facade.Option {
	if t == nil {
		return nil
	}
	return []facade.Option{facade.WithCatalogGuard(&t.lock), facade.WithCallGuard(t.gate)}
}

// rule sets the rules with a number; 0: none.
func (w *world) rule(n int) {
	t := w.trust
	if t == nil {
		return
	}
	r := rand.New(rand.NewPCG(t.seed, uint64(4000+n)))
	var all []rules.Rule
	for range min(n, 1+r.IntN(3)) {
		all = append(all, rules.Rule{Principal: []string{"", "", "alice", "bob"}[r.IntN(4)], Server: []string{"", "s0", "s1", "s2"}[r.IntN(4)],
			Tool: []string{"", "do", "d*", "extra*"}[r.IntN(4)], Do: []rules.Action{rules.Ask, rules.Ask, rules.Deny, rules.Allow}[r.IntN(4)]})
	}
	set, err := rules.Compile(all, true)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	t.rulings = append(t.rulings, ruling{time.Now(), all}) // first: at the instant of a change both hold
	w.mu.Unlock()
	t.gate.Set(set)
}

// drift has a server offer another tool under the name of do, or the locked one again.
func (s *server) drift(other bool) {
	s.w.mu.Lock()
	s.drifted = other && s.w.trust != nil
	s.w.mu.Unlock()
	s.notify("tools/list_changed", "", nil)
}

// offers notes what a list says that an incarnation answers; w.mu is locked.
func (l *life) offers() (more string) {
	if !l.s.drifted {
		l.honest, l.drifted = true, time.Time{}
		return ""
	}
	if l.drifted.IsZero() {
		l.drifted = time.Now()
		counts["lists that have drifted"]++
	}
	return drifted
}

// looks checks that no view of the host has what is not locked.
func (w *world) looks() {
	for _, tool := range w.current().Tools() {
		if tool.Definition.Description != "" {
			w.fail("%s is listed, and has drifted", tool.Name)
		}
	}
}

// trustSchedule adds what trust is about to the schedule of a seed.
func trustSchedule(seed uint64, all []event) []event {
	if newTrust(nil, seed) == nil {
		return all
	}
	r := rand.New(rand.NewPCG(seed, 6))
	for i := range all {
		if p := &all[i].Plan; all[i].Key == "" && p.ID != "" && p.Fault == "" && r.IntN(10) == 0 {
			p.Fault = []string{"rules", "drift"}[r.IntN(2)]
		}
	}
	for range 1 + r.IntN(12) {
		all = append(all, event{At: time.Duration(r.IntN(20_000)) * time.Millisecond, Kind: []string{"rules", "drift"}[r.IntN(2)],
			Server: r.IntN(servers), N: r.IntN(4), For: time.Duration(r.IntN(2)) * time.Millisecond})
	}
	return all
}

// settleTrust ends what is withheld and refused.
func (w *world) settleTrust() {
	if w.trust == nil {
		return
	}
	w.rule(0)
	for _, s := range w.servers {
		s.drift(false)
	}
}

// may reports what the rules say about a call: whether some of those in force between two instants allow it, and whether some ask.
func (t *trust) may(principal, server string, from, to time.Time) (allow, ask bool) {
	for i, ruling := range t.rulings {
		if ruling.from.After(to) || i+1 < len(t.rulings) && t.rulings[i+1].from.Before(from) {
			continue
		}
		do := rules.Allow
		for _, r := range ruling.all {
			if (r.Principal == "" || r.Principal == principal) && (r.Server == "" || r.Server == server) && !strings.HasPrefix(r.Tool, "extra") {
				do = r.Do
				break
			}
		}
		allow, ask = allow || do == rules.Allow, ask || do == rules.Ask
	}
	return allow, ask
}

// judgeTrust: no server executes what a rule denies, what it asks about and was not approved, or a tool that has
// drifted before the call began; w.mu is locked.
func (w *world) judgeTrust() {
	if w.trust == nil {
		return
	}
	began, principals, asks := map[string]time.Time{}, map[string]string{}, map[string]bool{}
	for _, a := range w.answers {
		id := a.Plan.ID
		if a.Kind == "resume" {
			id = a.Key
		}
		asks[id] = asks[id] || a.Plan.Form == "ask"
		if before, ok := began[id]; !ok || a.began.Before(before) {
			began[id] = a.began
		}
		if a.viaGateway() && a.Kind != "line" {
			principals[id] = w.peers[a.N].principal
		}
		if a.err != nil && (strings.Contains(a.err.Error(), "denied") || strings.Contains(a.err.Error(), "denies")) {
			counts["denied calls of "+a.Kind]++
		}
	}
	for _, x := range w.ledger {
		from, ok := began[x.ID]
		if !ok { // of settle
			continue
		}
		if !x.Late && !asks[x.ID] { // it was sent now
			from = x.At.Add(-time.Millisecond)
		}
		allow, ask := w.trust.may(principals[x.ID], x.Server, from, x.At)
		approved := false
		for _, a := range w.trust.approvals[x.ID] {
			approved = approved || a.principal == principals[x.ID] && a.server == x.Server && a.tool == "do" && !a.at.After(x.At)
		}
		switch {
		case allow:
		case !ask:
			w.failLocked("%s of %q was sent from %v on and executed at %v, and its rules deny it", x.ID, principals[x.ID], from.Sub(w.began), x.At.Sub(w.began))
		case !approved:
			w.failLocked("%s of %q was sent from %v on and executed at %v, and was not approved: %+v", x.ID, principals[x.ID], from.Sub(w.began), x.At.Sub(w.began), w.trust.approvals[x.ID])
		default:
			counts["executions that were approved"]++
		}
		l := w.servers[x.Server[1]-'0'].past[x.Incarnation-1]
		switch {
		case !x.Drifted.IsZero() && from.Sub(x.Drifted) > relisted, !x.Honest && l.s.http == nil:
			w.failLocked("%s was sent from %v on and executed at %v by incarnation %d of %s, whose tool has drifted at %v", x.ID, from.Sub(w.began), x.At.Sub(w.began), x.Incarnation, x.Server, x.Drifted.Sub(w.began))
		case !x.Honest && x.Drifted.IsZero() && from.Sub(l.began) > 5*relisted: // over HTTP an end is not seen at once
			w.failLocked("%s was sent from %v on and executed at %v by incarnation %d of %s, which began at %v and was not asked for its tools", x.ID, from.Sub(w.began), x.At.Sub(w.began), x.Incarnation, x.Server, l.began.Sub(w.began))
		}
	}
}
