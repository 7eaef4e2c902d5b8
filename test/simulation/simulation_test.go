package simulation

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

var (
	seeds = flag.Int("simulation.seeds", 50, "how many seeds")
	first = flag.Uint64("simulation.seed", 1, "the first seed")
)

func TestSimulation(t *testing.T) {
	for i := range *seeds {
		seed := *first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			all := schedule(seed)
			failed := run(t, seed, all)
			if len(failed) == 0 {
				return
			}
			t.Errorf("seed %d:\n%s", seed, strings.Join(failed, "\n"))
		})
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 2 {
			t.Log(counts[name], name)
		}
	}
}

// TestShow prints the schedule of -simulation.seed, and what the client said.
func TestShow(t *testing.T) {
	if !*show {
		t.Skip("-simulation.show")
	}
	for _, e := range schedule(*first) {
		t.Log(e)
	}
	t.Log(strings.Join(run(t, *first, schedule(*first)), "\n"))
}

var show = flag.Bool("simulation.show", false, "print a seed")
