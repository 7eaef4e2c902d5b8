//go:build linux

package fleettest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// The sizes of the tests. Those of the acceptance lines are -fleet.full.
var (
	full   = flag.Bool("fleet.full", false, "200 servers, 60 of them exclusive, a TTL of 8 s, and faults as long as docs/fleet.md says")
	strict = flag.Bool("fleet.strict", false, "assert the bounds of docs/fleet.md as they are; needs a machine that does nothing else")
	seed   = flag.Uint64("fleet.seed", 0, "play the random faults of this seed, and of as many as -fleet.seeds from there; default 1")
	seeds  = flag.Int("fleet.seeds", 0, "how many seeds of random faults; default 2, with -fleet.full 100")
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}
