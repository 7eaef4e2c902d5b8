package facade_test

import (
	"flag"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// everything runs all rows of the tables; without it a part of them.
var everything = flag.Bool("everything", false, "run all rows of the tables; without it a part of them")

func TestMain(m *testing.M) {
	mcptest.Main()
	serveMetaOnStdio()
	_ = flag.Set("test.parallel", "8") // most of what runs in parallel waits; -parallel overrides it
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// isLeftOut reports whether row i of a table does not run: go test ./... runs every fourth. A row that -run
// names is not left out.
func isLeftOut(i int) bool {
	return !*everything && i%4 != 0 && !strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}
