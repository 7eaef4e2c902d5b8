package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seeds     = flag.Int("simulation.seeds", 20, "how many seeds")
	firstSeed = flag.Uint64("simulation.seed", 1, "the first seed")
	duration  = flag.Duration("simulation.duration", 0, "play new seeds for that long")
	shorten   = flag.Bool("simulation.shrink", true, "search for a shorter schedule that fails")
	logs      = flag.Bool("simulation.log", false, "print the log of the client")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation plays seeds, and shortens the schedule of one that fails.
func TestSimulation(t *testing.T) {
	count, began, events, played, before := *seeds, time.Now(), 0, 0, 0
	if *duration > 0 {
		count = math.MaxInt
		if *firstSeed == 1 {
			*firstSeed = rand.Uint64() >> 24
		}
	}
	for i := range count {
		if took := time.Since(began).Seconds(); *duration > 0 && (t.Failed() || took > duration.Seconds()) {
			t.Logf("%d seeds from %d on: %.0f hours of virtual time, %.1f minutes and %.0f events a second", i, *firstSeed, virtual.Hours(), virtual.Minutes()/took, float64(events)/took)
			break
		}
		if i == 5 { // what is made once was made
			before = heap()
		}
		played++
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all := schedule(seed)
			events += len(all)
			failed := run(t, seed, all)
			if len(failed) == 0 {
				return
			}
			if !*shorten {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(failed, "\n"))
			}
			var left strings.Builder
			for _, e := range shrink(t, seed, all) {
				fmt.Fprintln(&left, e)
			}
			t.Errorf("seed %d:\n%s\n\nA shorter schedule that fails:\n%s", seed, strings.Join(failed, "\n"), left.String())
		})
	}
	if grown := heap() - before; before > 0 && grown > 1<<20+played<<12 && !t.Failed() { // a result of a test has some KiB, too
		t.Errorf("the worlds have left %d KiB in memory", grown>>10)
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Log(counts[name], name)
	}
	if *seeds >= 20 { // it has played what it is for
		for _, name := range []string{"call ok", "key ok", "handle ok", "post ok", "line ok", "tools ok", "answered questions of call", "answered questions of post", "executions in copies", "executions that were approved", "lists that have drifted"} {
			if counts[name] == 0 {
				t.Errorf("no %q in %d seeds", name, *seeds)
			}
		}
	}
}

// shrink leaves out events as long as the schedule fails.
func shrink(t *testing.T, seed uint64, all []event) []event {
	for size := len(all) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(all); {
			fewer := slices.Concat(all[:from], all[from+size:])
			if len(run(t, seed, fewer)) > 0 {
				all = fewer
			} else {
				from += size
			}
		}
	}
	return all
}
