package house

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestEventFieldsOfOperationsPage: the second column of the table of events names fields
// of mcpvisor.Event, and those that the comment of the kind says are set.
func TestEventFieldsOfOperationsPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Events\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		rows[strings.Trim(cells[1], " `")] = cells[2]
		for _, span := range codeSpan.FindAllStringSubmatch(cells[2], -1) {
			_, known := reflect.TypeFor[mcpvisor.Event]().FieldByName(span[1])
			require.True(t, known, "%s: mcpvisor.Event has no field %s", cells[1], span[1])
		}
	}
	for kind, field := range map[mcpvisor.EventKind]string{
		mcpvisor.EventReady: "Downtime", mcpvisor.EventDown: "FailedCalls", mcpvisor.EventRetry: "RetryAt",
		mcpvisor.EventEvicted: "Attempt", mcpvisor.EventParked: "Delay", mcpvisor.EventMissed: "Missed",
	} {
		require.Contains(t, rows[string(kind)], "`"+field+"`", kind)
	}
}
