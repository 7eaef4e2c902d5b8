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
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// An order is that of an operator to cancel a call in flight.
type order struct {
	call monitor.CallInFlight
	host *facade.Client
	at   time.Time
}

// operatorSchedule lets an operator cancel calls, in one world of two: at any time, and at the instant of their execution.
func operatorSchedule(seed uint64, all []event) []event {
	r := rand.New(rand.NewPCG(seed, 7))
	if r.IntN(2) == 0 {
		return all
	}
	canceled := map[string]bool{}
	for i := range all { // calls with the same key have the same plan
		p := &all[i].Plan
		if _, ok := canceled[p.ID]; !ok && p.ID != "" {
			canceled[p.ID] = r.IntN(6) == 0
		}
		if canceled[p.ID] {
			p.Fault = "operator"
		}
	}
	for range r.IntN(20) {
		all = append(all, event{At: time.Duration(r.IntN(20_000)) * time.Millisecond, Kind: "operator", Server: r.IntN(servers), N: r.IntN(4)})
	}
	return all
}

// burstSchedule makes many calls of one server at one time, in one world of three, so that they wait in its queue, and lets an
// operator cancel some of them.
func burstSchedule(seed uint64, all []event) []event {
	r := rand.New(rand.NewPCG(seed, 8))
	if r.IntN(3) > 0 {
		return all
	}
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
	for burst := range 1 + r.IntN(4) {
		at, server := ms(20_000), r.IntN(servers)
		for i := range 6 + r.IntN(6) {
			e := event{At: at + ms(20), Kind: "call", Server: server, Wait: r.IntN(3) == 0, Timeout: ms(8000) + time.Millisecond}
			e.Plan = plan{ID: fmt.Sprintf("c%d", 1000+100*burst+i), Form: "plain", Delay: time.Millisecond + ms(1000)}
			all = append(all, e)
		}
		for range r.IntN(4) {
			all = append(all, event{At: at + ms(1000), Kind: "operator", Server: server, N: r.IntN(12)})
		}
	}
	return all
}

// cancelCall lets an operator cancel a call in flight on the server of an event: that with the id of a request, if the event has
// one.
func (w *world) cancelCall(e event) {
	c, s := w.current(), w.servers[e.Server]
	calls := slices.DeleteFunc(c.CallsInFlight(), func(call monitor.CallInFlight) bool {
		return call.Method != "tools/call" || call.Server != s.name || e.Key != "" && e.Key != fmt.Sprint(call.ID)
	})
	if len(calls) == 0 {
		return
	}
	call := calls[e.N%len(calls)]
	at, err := time.Now(), relay.Of(c).CancelCall(call)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && call.ID == 0:
		w.failLocked("an operator canceled a call without an ID: %+v", call)
	case err == nil:
		counts["canceled by the operator"]++
		if call.Queued {
			counts["canceled by the operator in a queue"]++
		}
		w.orders = append(w.orders, order{call, c, at})
	default:
		counts["not canceled by the operator"]++
	}
	if err != nil && !errors.Is(err, mcpvisor.ErrInvalid) {
		w.failLocked("an operator could not cancel %+v: %v", call, err)
	}
}

// byOperator: an answer says that an operator canceled the call.
func byOperator(a answer) bool {
	return a.err != nil && strings.Contains(a.err.Error(), "an operator canceled the call")
}

// judgeOperator: a caller is told that an operator canceled its call if that is so, and at once; the key of such a call says so
// from then on. w.mu is locked.
func (w *world) judgeOperator() {
	ended := map[string]answer{} // by the id of the plan of calls with a key, the first that was told so, and not that nothing was sent
	for _, a := range w.answers {
		if !byOperator(a) {
			continue
		}
		counts["told by the operator: "+a.Kind]++
		if !slices.ContainsFunc(w.orders, func(o order) bool {
			return o.call.Server == w.servers[a.Server].name && !o.at.After(a.ended) && (a.Key != "" || !o.at.Before(a.began))
		}) && a.Kind != "resume" {
			w.failLocked("%s was told that an operator canceled it, and none has: %v", a.event, a.err)
		}
		var e *mcpvisor.Error
		if errors.As(a.err, &e) && (e.Kind != mcpvisor.ErrCanceled || e.Outcome == mcpvisor.OutcomeAnswered) {
			w.failLocked("%s was canceled by an operator, and got %s %s: %v", a.event, e.Kind, e.Outcome, a.err)
		}
		if first, ok := ended[a.Plan.ID]; a.Kind == "key" && e != nil && e.Outcome == mcpvisor.OutcomeUnknown && (!ok || a.ended.Before(first.ended)) {
			ended[a.Plan.ID] = a
		}
	}
	for _, o := range w.orders {
		id := w.planOf(o)
		if id == "" {
			continue
		}
		counts["orders of the operator with their calls"]++
		var told []string
		late := false
		for _, a := range w.answers {
			if a.Plan.ID == id && !a.began.After(o.at) && !a.ended.Before(o.at) {
				told = append(told, fmt.Sprintf("%s at %v: %q %v", a.event, a.ended.Sub(w.began), a.text, a.err))
				if byOperator(a) && (a.Key != "" || a.ended.Sub(o.at) < time.Second) || a.host != w.host {
					told = nil
					break
				}
				late = true
			}
		}
		if late && told != nil {
			w.failLocked("an operator canceled %s at %v, and its callers were told %q", id, o.at.Sub(w.began), told)
		}
	}
	for _, a := range w.answers {
		first, ok := ended[a.Plan.ID]
		if !ok || a.Key == "" || a.began.Before(first.ended) || a.host != first.host || w.forgot(first.began, a.ended) || byOperator(a) {
			continue
		}
		var e *mcpvisor.Error
		if !errors.As(a.err, &e) || e.Kind != mcpvisor.ErrCanceled && e.Kind != mcpvisor.ErrTimeout && e.Kind != mcpvisor.ErrJournal && e.Kind != mcpvisor.ErrClosed {
			w.failLocked("%s got %q, %v, and before %v", a.event, a.text, a.err, first.err)
		}
	}
	for id, a := range ended {
		counts["keys that say that an operator canceled their call"]++
		entry := w.files.entries[mcpvisor.JournalKey{Key: id}]
		if (entry.State != mcpvisor.JournalEnded || entry.Error == nil || entry.Error.Kind != mcpvisor.ErrCanceled) && !w.forgot(a.began, a.ended.Add(10*time.Second)) {
			w.failLocked("%s was told %v, and at the end the journal has %s %s", a.event, a.err, entry.State, entry.Result)
		}
	}
}

// planOf is the id of the plan of a call that an operator has canceled; empty if that is not certain: over HTTP, with copies, and
// while a server is replaced, several sessions have the same ids. w.mu is locked.
func (w *world) planOf(o order) string {
	s := w.servers[o.call.Server[1]-'0']
	if s.http != nil || s.name == w.copied {
		return ""
	}
	var ids []string
	for _, l := range s.past {
		if l.began.After(o.call.Began) || !l.ended.IsZero() && l.ended.Before(o.at) {
			continue
		}
		if id := l.requests[fmt.Sprint(o.call.ID)]; id != "" || l.stopped.After(o.call.Began) { // one that is stopped has not read it
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		return ""
	}
	return ids[0]
}

// fence fences a server, which runs no more until it is registered again. crossing: it was not registered, and is about to be.
func (w *world) fence(ctx context.Context, s *server, crossing bool) {
	w.mu.Lock()
	c, began, known := w.host, time.Now(), len(w.registrations)
	alone := true // nothing registers the server now, but for the one that the fence crosses
	for i, r := range w.registrations {
		if r.server == s.name && !r.over && r.asked.After(w.disk.began) {
			alone = alone && crossing && i == known-1
		}
	}
	w.mu.Unlock()
	err := c.Fence(ctx, s.name, "the simulation says so")
	w.mu.Lock()
	defer w.mu.Unlock()
	if took := time.Since(began); took > 20*time.Second && w.host == c {
		w.failLocked("fence of %s took %v: %v", s.name, took, err)
	}
	if err != nil || w.host != c || !alone || slices.ContainsFunc(w.registrations[known:], func(r *registration) bool { return r.server == s.name }) {
		return
	}
	s.fenced = time.Now()
	counts["fences"]++
	if crossing {
		counts["fences that cross a registration"]++
	}
	if s.http == nil && len(s.lives) > 0 {
		w.failLocked("%s is fenced, and incarnation %d of it runs", s.name, s.lives[0].number)
	}
}
