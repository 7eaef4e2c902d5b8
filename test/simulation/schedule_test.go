package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// An event of a schedule begins at its time, in a goroutine of its own.
type event struct {
	At      time.Duration
	Kind    string
	Server  int
	Plan    plan
	Key     string
	Timeout time.Duration // of the context; 0: none
	Wait    bool
	For     time.Duration
	N       int
}

func (e event) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%8v %-9s server %d plan %+v key %q timeout %v wait %v for %v n %d", e.At, e.Kind, e.Server, e.Plan, e.Key, e.Timeout, e.Wait, e.For, e.N), " ")
}

// viaGateway reports whether a client of the gateway makes the call.
func (e event) viaGateway() bool { return e.Kind == "post" || e.Kind == "taskpost" || e.Kind == "line" }

// odd is a choice that the duration makes.
func (e event) odd() bool { return e.For/time.Millisecond%2 == 1 }

const servers = 3

// schedule makes the events of a seed.
func schedule(seed uint64) (all []event) {
	r := rand.New(rand.NewPCG(seed, 1))
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
	length := 20_000
	id := 0
	makePlan := func() plan {
		id++
		p := plan{ID: fmt.Sprintf("c%d", id), Form: "plain", Delay: ms(1 + []int{1, 50, 3000}[r.IntN(3)])}
		switch r.IntN(6) {
		case 0, 1:
			p.Form = "task"
		case 3:
			p.Form = "ask"
		case 2:
			if r.IntN(3) == 0 {
				p.Form = "never"
			}
		}
		if r.IntN(4) == 0 {
			p.Fault = faults[r.IntN(len(faults))]
		}
		return p
	}
	keys := map[string]event{}
	gatewayKeys := map[string]event{}
	for range 20 + r.IntN(120) {
		e := event{At: ms(length), Kind: "call", Server: r.IntN(servers), Plan: makePlan(), Wait: r.IntN(2) == 0}
		if e.Wait || r.IntN(2) == 0 {
			e.Timeout = ms(8000) + time.Millisecond
		}
		switch r.IntN(12) {
		case 11:
			e.Kind, e.Wait = "line", false
			e.Timeout = ms(20_000) + time.Millisecond
		case 10:
			e.Kind, e.N, e.Wait = "taskpost", 2+r.IntN(3), false // of the versions that have tasks
			e.Plan.Form, e.Timeout = "task", ms(20_000)+time.Millisecond
		case 0, 1, 2:
			e.Kind, e.Key = "key", fmt.Sprintf("k%d", r.IntN(12))
			e.Timeout = ms(12_000) + time.Millisecond
			if first, ok := keys[e.Key]; ok {
				e.Server, e.Plan = first.Server, first.Plan
			} else {
				e.Plan.ID = e.Key
				keys[e.Key] = e
			}
		case 3:
			e.Kind = "handle"
			e.Timeout = ms(12_000) + time.Millisecond
		case 5, 6, 7:
			e.Kind, e.N, e.Wait = "post", r.IntN(peers), false
			e.Timeout = ms(20_000) + time.Millisecond
			if r.IntN(3) == 0 {
				e.Key = fmt.Sprintf("g%d", r.IntN(6))
				principal := []string{"alice", "bob"}[e.N%2]
				if first, ok := gatewayKeys[principal+e.Key]; ok {
					e.Server, e.Plan = first.Server, first.Plan
				} else {
					e.Plan.ID = principal + ":" + e.Key
					gatewayKeys[principal+e.Key] = e
				}
			}
		case 4:
			if r.IntN(3) == 0 {
				e = event{At: e.At, Kind: "resume", Key: fmt.Sprintf("k%d", r.IntN(12)), Timeout: ms(12_000) + time.Millisecond}
			}
		}
		all = append(all, e)
		if e.Key != "" && r.IntN(4) == 0 { // it is sent twice
			e.At += time.Duration(1+r.IntN(1000)) * []time.Duration{1, time.Microsecond, 8 * time.Millisecond}[r.IntN(3)]
			all = append(all, e)
		}
	}
	for range r.IntN(20) {
		all = append(all, event{At: ms(length), Kind: []string{"tools", "read", "hostread", "thief", "bye"}[r.IntN(5)], Server: r.IntN(servers), N: r.IntN(peers), Timeout: ms(5000) + time.Millisecond})
	}
	for range r.IntN(4) {
		action := []string{"die", "kill", "restart", "drain", "apply", "again", "hide", "fence"}[r.IntN(8)]
		all = append(all, event{At: ms(length), Kind: "write", Key: action, Server: r.IntN(servers), N: r.IntN(4), Wait: r.IntN(2) == 0})
	}
	for range r.IntN(25) {
		e := event{At: ms(length), Server: r.IntN(servers), N: r.IntN(4), For: ms(3000)}
		e.Kind = []string{"kill", "kill", "stop", "change", "restart", "drain", "again", "apply", "fence", "refresh", "store", "refuse", "die", "forget", "hide", "hide", "touch", "touch"}[r.IntN(18)]
		all = append(all, e)
	}
	for i := range all { // actions of the host that cross a call: of calls that may end without a result
		if f := all[i].Plan.Fault; all[i].Key != "" && f == "cancel" {
			all[i].Plan.Fault = ""
		}
	}
	all = burstSchedule(seed, operatorSchedule(seed, trustSchedule(seed, superviseSchedule(seed, all))))
	slices.SortStableFunc(all, func(a, b event) int { return int(a.At - b.At) })
	return all
}
