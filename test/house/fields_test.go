package house

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// documented are the types whose fields and methods pages name, as in
// `ServerStatus.RetryAt`.
var documented = map[string]reflect.Type{
	"Client": reflect.TypeFor[*facade.Client](), "ServerSpec": reflect.TypeFor[mcpvisor.ServerSpec](),
	"Stdio": reflect.TypeFor[mcpvisor.Stdio](), "HTTP": reflect.TypeFor[mcpvisor.HTTP](), "InMemory": reflect.TypeFor[mcpvisor.InMemory](),
	"Timeouts": reflect.TypeFor[mcpvisor.Timeouts](), "Probe": reflect.TypeFor[mcpvisor.Probe](), "Limits": reflect.TypeFor[mcpvisor.Limits](),
	"Policy": reflect.TypeFor[supervisor.Policy](), "Cause": reflect.TypeFor[*supervisor.Cause](), "Event": reflect.TypeFor[mcpvisor.Event](),
	"Error": reflect.TypeFor[*mcpvisor.Error](), "ServerStatus": reflect.TypeFor[mcpvisor.ServerStatus](),
	"SessionInfo": reflect.TypeFor[mcpvisor.SessionInfo](), "CallCounts": reflect.TypeFor[mcpvisor.CallCounts](),
}

var (
	codeSpans = regexp.MustCompile("`([^`\n]+)`")
	// memberPath matches `Type.Member` and `Type.Member.Member`, and `Type.Member(…)`.
	memberPath = regexp.MustCompile(`^([A-Z]\w*)((?:\.[A-Z]\w*)+)(?:\(.*\))?$`)
)

// TestPagesNameRealFields: a code span such as `ServerStatus.RetryAt` on a page for users
// names a field or a method that exists.
func TestPagesNameRealFields(t *testing.T) {
	var unknown []string
	checked := 0
	for _, page := range []string{"README.md", "docs/quickstart.md", "docs/operations.md", "docs/troubleshooting.md", "docs/migration.md", "docs/config.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, span := range codeSpans.FindAllStringSubmatch(string(text), -1) {
			path := memberPath.FindStringSubmatch(span[1])
			if path == nil || documented[path[1]] == nil {
				continue
			}
			checked++
			if !hasMember(documented[path[1]], path[2]) {
				unknown = append(unknown, page+": "+span[1])
			}
		}
	}
	require.Greater(t, checked, 60, "the pages are read")
	require.Empty(t, unknown, "no such field or method")
	require.False(t, hasMember(documented["Event"], ".Down"))
	require.True(t, hasMember(documented["ServerSpec"], ".HTTP.Auth"))
}

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
		for _, span := range codeSpans.FindAllStringSubmatch(cells[2], -1) {
			require.True(t, hasMember(documented["Event"], "."+span[1]), "%s: mcpvisor.Event has no field %s", cells[1], span[1])
		}
	}
	for kind, field := range map[mcpvisor.EventKind]string{
		mcpvisor.EventReady: "Downtime", mcpvisor.EventDown: "FailedCalls", mcpvisor.EventRetry: "RetryAt",
		mcpvisor.EventEvicted: "Attempt", mcpvisor.EventParked: "Delay", mcpvisor.EventMissed: "Missed",
	} {
		require.Contains(t, rows[string(kind)], "`"+field+"`", kind)
	}
}

// hasMember reports whether a type has the fields of a path, as in ".HTTP.Auth". The last
// part may be a method.
func hasMember(of reflect.Type, path string) bool {
	for _, name := range strings.Split(strings.TrimPrefix(path, "."), ".") {
		if _, ok := of.MethodByName(name); ok {
			continue
		}
		if of == reflect.TypeFor[mcpvisor.Auth]() { // that of configuration files
			of = reflect.TypeFor[oauth.Config]()
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return false
		}
		field, ok := of.FieldByName(name)
		if !ok {
			return false
		}
		of = field.Type
	}
	return true
}
