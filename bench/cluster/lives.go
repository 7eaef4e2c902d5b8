package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// life is one life of a server: from its start until its end, or until the process had its last
// beat.
type life struct {
	node, name string
	from, to   time.Duration
	ended      bool
	stops      []span          // in which its process was stopped
	calls      []time.Duration // when it read one, if they are logged
}

type span struct{ from, to time.Duration }

// stopped is how long a process must be silent to count as stopped; a busy machine takes less.
const stopped = time.Second

// readLives reads the logs of all processes in a folder, which are named after their nodes.
func readLives(folder string) (all []*life) {
	for _, file := range must(filepath.Glob(filepath.Join(folder, "*.log"))) {
		node, _, _ := strings.Cut(filepath.Base(file), ".")
		all = append(all, parseLives(node, must(os.ReadFile(file)))...)
	}
	slices.SortFunc(all, func(a, b *life) int { return int(a.from - b.from) })
	return all
}

func parseLives(node string, text []byte) (all []*life) {
	byNumber := map[int64]*life{}
	var last time.Duration
	var stops []span
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var event, name string
		var number, at int64
		_ = must(fmt.Sscan(string(line), &event, &number, &name, &at))
		t := time.Duration(at)
		if last != 0 && t-last > stopped {
			stops = append(stops, span{last, t})
		}
		last = max(last, t)
		switch l := byNumber[number]; event {
		case "start":
			l = &life{node: node, name: name, from: t}
			byNumber[number], all = l, append(all, l)
		case "end":
			l.to, l.ended = t, true
		case "call":
			l.calls = append(l.calls, t)
		}
	}
	for _, l := range all {
		if l.stops = stops; !l.ended {
			l.to = last
		}
	}
	return all
}

// overlap is how long both lives ran.
func overlap(a, b *life) time.Duration {
	running := []span{{max(a.from, b.from), min(a.to, b.to)}}
	for _, stop := range slices.Concat(a.stops, b.stops) {
		var rest []span
		for _, s := range running {
			rest = append(rest, span{s.from, min(s.to, stop.from)}, span{max(s.from, stop.to), s.to})
		}
		running = rest
	}
	var sum time.Duration
	for _, s := range running {
		sum += max(0, s.to-s.from)
	}
	return sum
}

// twice returns how many names had two lives at once after a time, and for how long at most.
func twice(lives []*life, since time.Duration) (names int, longest time.Duration) {
	found := map[string]bool{}
	for i, a := range lives {
		for _, b := range lives[i+1:] {
			if a.name != b.name || b.from < since {
				continue
			}
			if both := overlap(a, b); both > 0 {
				found[a.name] = true
				longest = max(longest, both)
			}
		}
	}
	return len(found), longest
}

// moved returns how many names have begun a life after a time.
func moved(lives []*life, since time.Duration) int {
	names := map[string]bool{}
	for _, l := range lives {
		if l.from >= since {
			names[l.name] = true
		}
	}
	return len(names)
}

// late returns how many calls were read by a life after a later one of the same name had begun.
func late(lives []*life, since time.Duration) (n int) {
	for i, a := range lives {
		for _, at := range a.calls {
			if at >= since && slices.ContainsFunc(lives[i+1:], func(b *life) bool { return b.name == a.name && b.from > a.from && b.from < at }) {
				n++
			}
		}
	}
	return n
}

// on returns the names whose latest life is on a node.
func on(lives []*life, node string) (names []string) {
	latest := map[string]*life{}
	for _, l := range lives {
		latest[l.name] = l
	}
	for name, l := range latest {
		if l.node == node && !l.ended {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
