package main

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
)

// sizes are how large and how long a run is.
type sizes struct {
	names    int
	load     time.Duration // of one measurement of load
	stop     time.Duration // how long a node is stopped
	patience time.Duration // how long is waited for what may never come
}

const (
	probeEvery   = 200 * time.Millisecond // each node calls each name so often
	probeTimeout = 2 * time.Second
	loadTimeout  = 5 * time.Second
	quiet        = 3 * time.Second // nothing has moved for so long: it is over
)

// run is one scenario with one system. What happens to node c is measured on a and b.
type run struct {
	sizes
	nodes *nodes
	names []string
	put   func(key string, value float64)
}

// boot starts nodes, and lets every name begin on one of them.
func (r *run) boot(ids ...string) {
	for _, id := range ids { // members of the actor library that start at once may never see each other
		r.nodes.start(id)
	}
	for i := range r.sizes.names {
		r.names = append(r.names, fmt.Sprintf("s%02d", i))
	}
	r.nodes.ask("a", question{Op: "apply", Names: r.names})
	for _, id := range ids {
		r.nodes.ask(id, question{Op: "touch", Names: r.names, Size: 100, Timeout: probeTimeout, For: 30 * time.Second})
	}
}

// probed calls all names on all nodes while do runs, and a second before and afterwards. do returns
// when the fault happened. wait: calls wait while a server moves.
func (r *run) probed(key string, wait bool, do func() (since time.Duration)) {
	for id := range r.nodes.all {
		r.probe(id, wait)
	}
	time.Sleep(time.Second)
	since := do()
	time.Sleep(time.Second)
	var failed, slow, notSent, back float64
	answered := map[string]time.Duration{}
	for id := range r.nodes.all {
		for _, c := range r.nodes.ask(id, question{Op: "probed"}).Calls {
			if id == "c" || c.End < since {
				continue
			}
			if first, ok := answered[c.Name]; c.OK && c.Begin > since && (!ok || c.End < first) {
				answered[c.Name] = c.End
			}
			failed += count(!c.OK)
			notSent += count(c.NotSent)
			slow += count(!c.OK && hung(c.End-c.Begin, probeTimeout))
		}
	}
	lives := r.nodes.lives()
	for _, name := range r.names {
		if _, ok := answered[name]; !ok {
			back = math.Inf(1)
		}
		back = max(back, (answered[name] - since).Seconds())
	}
	names, longest := twice(lives, since)
	r.put(key+" failed", failed)
	r.put(key+" hung", slow)
	r.put(key+" not sent", notSent)
	r.put(key+" back", back)
	r.put(key+" twice", float64(names))
	r.put(key+" longest", longest.Seconds())
	r.put(key+" moved", float64(moved(lives, since)))
}

func count(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// probe begins to call all names on a node.
func (r *run) probe(id string, wait bool) {
	r.nodes.ask(id, question{Op: "probe", Names: r.names, Size: 100, Every: probeEvery, Timeout: probeTimeout, Wait: wait})
}

// joinAndDrain lets a third node join, and drains it.
func (r *run) joinAndDrain() {
	r.boot("a", "b")
	r.probed("join", true, func() time.Duration {
		since := now()
		r.nodes.start("c")
		r.probe("c", true)
		for end := now() + 3*r.patience; now() < end; time.Sleep(100 * time.Millisecond) {
			if lives := r.nodes.lives(); len(on(lives, "c")) > 0 && now()-lives[len(lives)-1].from > quiet {
				break
			}
		}
		return since
	})
	r.probed("drain", true, func() time.Duration {
		since := now()
		r.nodes.ask("c", question{Op: "leave"})
		r.put("drain took", (now() - since).Seconds())
		r.nodes.kill("c") // it has ended
		return since
	})
}

// killed kills a node.
func (r *run) killed() {
	r.boot("a", "b", "c")
	r.probed("kill", false, func() time.Duration {
		since := r.nodes.kill("c")
		time.Sleep(r.patience)
		return since
	})
}

// stopped stops a node for some time, and lets it continue.
func (r *run) stopped() {
	r.boot("a", "b", "c")
	rejoined := math.Inf(1)
	var continued time.Duration
	r.probed("stop", false, func() time.Duration {
		c, since := r.nodes.all["c"].cmd.Process, now()
		check(c.Signal(syscall.SIGSTOP))
		time.Sleep(r.stop)
		continued = now()
		check(c.Signal(syscall.SIGCONT))
		for end := now() + r.patience; now() < end && math.IsInf(rejoined, 1); time.Sleep(20 * time.Millisecond) {
			if r.nodes.ask("a", question{Op: "members"}).Members == len(r.nodes.all) {
				rejoined = (now() - continued).Seconds()
			}
		}
		return since
	})
	r.put("stop late", float64(late(r.nodes.lives(), continued)))
	r.put("stop rejoined", rejoined)
}

// loaded measures calls from node a to names on node b, and memory.
func (r *run) loaded() {
	r.boot("a", "b", "c")
	time.Sleep(time.Second)
	r.put("memory idle", r.nodes.resident())
	there := on(r.nodes.lives(), "b")
	for _, l := range []struct {
		key           string
		callers, size int
		warm          bool // once is enough to break what large messages break
	}{{"small 1", 1, 100, true}, {"small 64", 64, 100, true}, {"large 64", 64, 100_000, false}} {
		q := question{Op: "load", Names: there, Callers: l.callers, Size: l.size, Timeout: loadTimeout, For: r.load / 5}
		if l.warm {
			r.nodes.ask("a", q)
		}
		q.For = r.load
		did := r.nodes.ask("a", q).Load
		r.put(l.key, did.PerSecond)
		r.put(l.key+" failed", float64(did.Failed))
		r.put(l.key+" hung", float64(did.Hung))
	}
	r.put("memory loaded", r.nodes.resident())
}

// median is the middle value.
func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
