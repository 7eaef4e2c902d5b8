//go:build linux

package integration

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

var (
	chaosDuration = flag.Duration("chaos.duration", 3*time.Second, "how long each storm lasts")
	chaosWait     = flag.Duration("chaos.wait", maxWait, "how long a storm waits for anything; a planted bug is then found sooner")
	everything    = flag.Bool("everything", raceDetector, "run all rows of the tables of hostile servers, and start hundreds of servers at once; without it a part of them")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "the seed of the one storm to run; 0 runs several with new seeds")
)

func TestMain(m *testing.M) {
	mcptest.Main()
	if os.Getenv(hostRole) != "" {
		os.Exit(runHost())
	}
	if address := os.Getenv(stoppedHostRole); address != "" {
		os.Exit(runStoppedHost(address))
	}
	if os.Getenv(reaperRole) != "" {
		os.Exit(runReaper())
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// runsAll reports whether every row of a table runs: in .ci/run, and if -run names a row.
func runsAll() bool {
	return *everything || strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// isLeftOut reports whether row i of a table does not run: go test ./... runs every eighth.
func isLeftOut(i int) bool { return i%8 != 0 && !runsAll() }

// maxWait bounds every wait. It is far longer than any wait takes, so that only an
// event that never comes reaches it.
const maxWait = slower * 30 * time.Second

// pollInterval is the pause between polls where no channel signals the change.
const pollInterval = time.Millisecond
