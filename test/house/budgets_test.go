package house

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// budgets are the most lines of Go, without tests, that each area of the repository may have. A file counts in
// the first area whose pattern matches its path. A change that needs more raises the number here, and says why
// in its message: growth is a decision.
var budgets = []struct {
	area    string
	pattern *regexp.Regexp
	lines   int
}{
	{"helpers of tests, simulation", regexp.MustCompile(`^test/|^fleet/(fleettest|internal/(storetest|etcdtest))/|/(transport|oidc)test/`), 13500},
	{"runtime", regexp.MustCompile(`^[^/]+\.go$|^(facade|actors|supervisor|messages|monitor|transport|internal)/`), 52190},
	{"gateway", regexp.MustCompile(`^gateway/`), 13685},
	{"fleet", regexp.MustCompile(`^fleet/`), 13000},
	{"command", regexp.MustCompile(`^cmd/mcpvisor/`), 24570},
	{"demo", regexp.MustCompile(`^cmd/demo/`), 1100},
	{"config", regexp.MustCompile(`^config/`), 4300},
	{"oauth, headers from programs", regexp.MustCompile(`^(oauth|headerauth)/`), 5500},
	{"web", regexp.MustCompile(`^web/.*\.go$`), 3600},
	{"telemetry, journal, schema", regexp.MustCompile(`^(telemetry|journal|schema)/`), 4700},
	{"trust (lock, rules, records)", regexp.MustCompile(`^(lock|rules|audit|records|trust)/`), 3000},
	{"mcptest", regexp.MustCompile(`^mcptest/`), 6000},
	{"adapters", regexp.MustCompile(`^adapters/`), 700},
	{"site of the docs", regexp.MustCompile(`^docs/site/`), 430},
	{"bench", regexp.MustCompile(`^bench/`), 4250},
}

// TestBudgets counts the lines of each area.
func TestBudgets(t *testing.T) {
	lines := make([]int, len(budgets))
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() {
			continue
		}
		found := false
		for i, b := range budgets {
			if found = b.pattern.MatchString(s.path); found {
				lines[i] += s.lines()
				break
			}
		}
		require.True(t, found, "%s belongs to no area: add one to budgets", s.path)
	}
	for i, b := range budgets {
		require.NotZero(t, lines[i], "the area %s has no file: correct its pattern", b.area)
		require.LessOrEqual(t, lines[i], b.lines, "lines of the area %s; shorten it, or raise its budget and say why", b.area)
	}
}
