package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// judge compares what was told with what was done.
func (w *world) judge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := map[string][]execution{}
	for _, x := range w.ledger {
		done[x.ID] = append(done[x.ID], x)
	}
	for id, all := range done {
		if len(all) > 1 {
			w.failLocked("%s was executed %d times: %+v", id, len(all), all)
		}
	}
	w.judgeCopies()
	w.judgeRest()
	w.judgeKeys()
	w.judgeTrust()
	w.judgeCancellations(done)
	w.judgeEnds()
	w.judgeOperator()
	told := map[string]string{}
	for _, a := range w.answers {
		name := a.Kind + " ok"
		if a.err != nil {
			text := a.err.Error()
			var e *mcpvisor.Error
			if errors.As(a.err, &e) {
				text = string(e.Kind) + " " + string(e.Outcome)
			}
			name = a.Kind + " " + text[:min(60, len(text))]
		}
		counts[name]++
	}
	counts["executions"] += len(w.ledger)
	for _, a := range w.answers {
		id := a.Plan.ID
		if a.Kind == "resume" {
			id = a.Key
		}
		bound := totalTime + slack
		if a.Timeout > 0 {
			bound = min(bound, a.Timeout+slack)
		}
		if a.Key != "" {
			bound += 2 * noteTime
		}
		if w.trust != nil { // a person who decides is waited for, and asked again if the rules have changed
			bound += 5 * askedFor
		}
		if took := a.ended.Sub(a.began); took > bound {
			w.failLocked("%s took %v: %v", a.event, took, a.err)
		}
		if a.Kind == "tools" || a.Kind == "read" || a.Kind == "hostread" {
			continue
		}
		if a.Kind == "post" || a.Kind == "taskpost" {
			for _, x := range done[id] {
				if w.alwaysHidden(x.Server, a.began, x.At) && a.Key == "" {
					w.failLocked("%s was executed at %v, and its server was hidden since before the call", a.event, x.At.Sub(w.began))
				}
			}
		}
		if a.host != w.host && a.err != nil {
			continue // the caller died with its host
		}
		if a.Key == "" && a.Plan.Fault != "cancel" && (a.Timeout == 0 || a.ended.Sub(a.began) < a.Timeout) && w.toldCanceled(a) && !byOperator(a) {
			w.failLocked("%s was told after %v that it was canceled, and its caller did not: %v", a.event, a.ended.Sub(a.began), a.err)
		}
		var e *mcpvisor.Error
		switch {
		case a.err == nil:
			n := 0
			if len(done[id]) > 0 {
				n = done[id][0].Number
			}
			if want := fmt.Sprintf("%s#%d", id, n); a.text != want && a.text != want+":" && a.text != want+":"+id {
				w.failLocked("%s got %q and not %q", a.event, a.text, want)
			}
			if strings.HasSuffix(a.text, ":"+id) {
				counts["answered questions of "+a.Kind]++
			} else if strings.HasSuffix(a.text, ":") {
				counts["unanswered questions of "+a.Kind]++
			}
			if first, ok := told[id]; ok && first != a.text {
				w.failLocked("%s was told %q before, and now %q", id, first, a.text)
			}
			told[id] = a.text
		case a.viaGateway():
			if a.Key == "" && claimsNotExecuted(a.err) && len(done[id]) > 0 {
				w.failLocked("%s of peer %d was told that it was not executed, and was: %v, %+v", a.event, a.N, a.err, done[id])
			}
		case !errors.As(a.err, &e):
			w.failLocked("%s got an error of another type: %v", a.event, a.err)
		case e.Outcome == mcpvisor.OutcomeNotSent && a.Kind != "resume" && a.Key == "" && len(done[id]) > 0:
			w.failLocked("%s was told not sent, and was executed: %v, %+v", a.event, a.err, done[id])
		case e.Outcome == mcpvisor.OutcomeNotSent && a.Key != "":
			for _, x := range done[id] { // only by a call that began before this one ended
				if x.At.After(a.began) && !w.otherAsks(a) {
					w.failLocked("%s was told not sent, and was executed: %v, %+v", a.event, a.err, x)
				}
			}
		}
	}
}

// judgeCancellations: a server in memory is told that a call is given up which it was executing, if it lives.
func (w *world) judgeCancellations(done map[string][]execution) {
	for _, a := range w.answers {
		var e *mcpvisor.Error
		if a.Kind != "call" || len(done[a.Plan.ID]) != 1 || w.servers[a.Server].http != nil || !errors.As(a.err, &e) ||
			e.Outcome != mcpvisor.OutcomeUnknown || e.Kind != mcpvisor.ErrCanceled && e.Kind != mcpvisor.ErrTimeout || a.host != w.host {
			continue
		}
		x := done[a.Plan.ID][0]
		if l := w.servers[a.Server].past[x.Incarnation-1]; l.ended.IsZero() || l.ended.After(a.ended.Add(10*time.Second)) {
			counts["given up"]++
			told := w.canceled[a.Plan.ID]
			for _, t := range l.tasks.byID {
				told = told || strings.HasPrefix(t.text, a.Plan.ID+"#") && t.done.Before(a.ended.Add(time.Second))
			}
			if !told {
				w.failLocked("%s was given up, and incarnation %d of %s was not told: %v", a.event, x.Incarnation, x.Server, a.err)
			}
		}
	}
}

// judgeEnds: an incarnation ends with the session that it belongs to, and serves no call that begins when its registration
// was replaced.
func (w *world) judgeEnds() {
	began := map[string]time.Time{}
	for _, a := range w.answers {
		if a.Key == "" {
			began[a.Plan.ID] = a.began
		}
	}
	const enough = 15 * time.Second
	for _, x := range w.ledger {
		s := w.servers[x.Server[1]-'0']
		l := s.past[x.Incarnation-1]
		if left := w.lastLeft(x.ID); x.Server == w.copied && l.from != nil && !left.IsZero() && w.settled.Sub(left) > enough {
			counts["ends of copies"]++
			if l.ended.IsZero() || l.ended.Sub(left) > enough {
				w.failLocked("incarnation %d of %s served a session that ended at %v, and runs on", l.number, s.name, left.Sub(w.began))
			}
		}
		if l.from == nil || l.from.made.IsZero() || began[x.ID].IsZero() {
			continue
		}
		for _, r := range w.registrations {
			if r.server == s.name && r.asked.After(l.from.made) && !r.made.IsZero() && began[x.ID].Sub(r.made) > enough/5 {
				w.failLocked("incarnation %d of %s executed %s, which began at %v, and was replaced at %v", l.number, s.name, x.ID, began[x.ID].Sub(w.began), r.made.Sub(w.began))
			}
		}
	}
}

// lastLeft is when the last session left that called with an id, and zero while one is there. With a key the copy of any
// of them may have executed the call.
func (w *world) lastLeft(id string) time.Time {
	var last time.Time
	for _, session := range w.sessions[id] {
		left := w.left[session]
		if left.IsZero() {
			return left
		}
		if left.After(last) {
			last = left
		}
	}
	return last
}

// judgeKeys: what a key has got once, it gets again, and a call is interrupted only with its host, as long as the journal
// loses nothing.
func (w *world) judgeKeys() {
	type key struct{ way, id string }
	used, first := map[key]time.Time{}, map[key]answer{}
	all := slices.Clone(w.answers)
	for _, a := range all {
		k := key{strings.Replace(a.Kind, "resume", "key", 1), cmp.Or(a.Plan.ID, a.Key)}
		if began, ok := used[k]; !ok || a.began.Before(began) {
			used[k] = a.began
		}
	}
	slices.SortStableFunc(all, func(a, b answer) int { return a.ended.Compare(b.ended) })
	for _, a := range all {
		k := key{strings.Replace(a.Kind, "resume", "key", 1), cmp.Or(a.Plan.ID, a.Key)}
		if a.Key == "" || a.err == nil && first[k].Key != "" {
			continue
		}
		if a.err == nil {
			first[k] = a
			continue
		}
		kind := mcpvisor.ErrorKind("")
		var e *mcpvisor.Error
		var model *modelError
		if errors.As(a.err, &e) {
			kind = e.Kind
		} else if errors.As(a.err, &model) {
			kind = mcpvisor.ErrorKind(model.Code)
		}
		before := first[k]
		after := before.Key != "" && !a.began.Before(before.ended)
		switch kind {
		case mcpvisor.ErrInterrupted:
			counts["interrupted"]++
			if !w.forgot(used[k], a.ended) {
				w.failLocked("%s is told that its host has ended, which has not: %v; it got %q before", a.event, a.err, before.text)
			}
		case "", mcpvisor.ErrCanceled, mcpvisor.ErrTimeout, mcpvisor.ErrJournal, mcpvisor.ErrClosed:
		default:
			// A copy is made of a server that runs, and only a copy has the journal of its calls open.
			ofCopy := k.way == "post" && w.servers[a.Server].name == w.copied
			if after && !ofCopy && a.host == w.host && !w.forgot(before.began, a.ended) {
				w.failLocked("%s got %q before, and now %v", a.event, before.text, a.err)
			}
		}
	}
	for k, a := range first { // the journal has what was told
		key := mcpvisor.JournalKey{Key: a.Key}
		if a.viaGateway() {
			key.Principal, _, _ = strings.Cut(a.Plan.ID, ":")
		}
		entry := w.files.entries[key]
		if (entry.State != mcpvisor.JournalEnded || !strings.Contains(string(entry.Result), `"`+a.text+`"`)) && !w.forgot(used[k], a.ended.Add(10*time.Second)) {
			w.failLocked("%s got %q, and at the end the journal has %s %s", a.event, a.text, entry.State, entry.Result)
		}
		counts["results in the journal"]++
	}
}

// forgot reports whether the journal may have lost something between two instants.
func (w *world) forgot(from, to time.Time) bool {
	return slices.ContainsFunc(w.forgetful, func(t [2]time.Time) bool { return !t[1].Before(from) && !t[0].After(to) })
}

// judgeCopies: an incarnation of the server that runs once for each client serves one of them.
func (w *world) judgeCopies() {
	owner := map[string]string{}
	for _, a := range w.answers {
		if a.Kind == "line" {
			owner[a.Plan.ID] = fmt.Sprintf("lines of host %p", a.host)
		} else if a.viaGateway() && a.Key == "" {
			owner[a.Plan.ID] = w.peers[a.N].principal
			if p := w.peers[a.N]; !p.modern() {
				owner[a.Plan.ID] = fmt.Sprintf("%s, peer %d", p.principal, p.n)
			}
		}
	}
	served := map[string]string{}
	for _, x := range w.ledger {
		if x.Server != w.copied || owner[x.ID] == "" || w.servers[0].http != nil && w.servers[0].modern {
			continue
		}
		place := fmt.Sprint(x.Incarnation, " ", x.Session)
		counts["executions in copies"]++
		if before := served[place]; before != "" && before != owner[x.ID] {
			w.failLocked("incarnation %d of %s served %s and %s", x.Incarnation, x.Server, before, owner[x.ID])
		}
		served[place] = owner[x.ID]
	}
}

// toldCanceled: an answer says that the call was canceled. A client before 2026-07-28 that ends its session cancels its calls.
func (w *world) toldCanceled(a answer) bool {
	return a.err != nil && strings.Contains(a.err.Error(), "cancel") && a.Kind != "line" && (!a.viaGateway() || w.peers[a.N].modern())
}

// otherAsks: another call has the key of a.
func (w *world) otherAsks(a answer) bool {
	for _, b := range w.answers {
		if b.Key == a.Key && b.Kind != "resume" && b.event != a.event {
			return true
		}
	}
	return false
}
