package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compiled(t testing.TB, trusted bool, all ...Rule) *Set {
	t.Helper()
	s, err := Compile(all, trusted)
	require.NoError(t, err)
	return s
}

func TestSet_Match_first_rule_counts(t *testing.T) {
	s := compiled(t, false,
		Rule{Principal: "ci", Server: "fs", Tool: "write_*", Do: Ask},
		Rule{Server: "fs", Tool: "write_log", Do: Allow},
		Rule{Tool: "write_*", Do: Deny})
	for _, row := range []struct {
		principal, server, tool string
		want                    Action
		number                  int
	}{
		{"ci", "fs", "write_log", Ask, 1}, {"", "fs", "write_log", Allow, 2}, {"ci2", "fs", "write_file", Deny, 3},
		{"ci", "fs2", "write_log", Deny, 3}, {"ci", "fs", "read", Allow, 0}, {"ci", "fs", "Write_log", Allow, 0},
	} {
		rule, number := s.Match(&mcpvisor.GuardedCall{Principal: row.principal, Server: row.server, Tool: row.tool})
		require.Equal(t, row.want, rule.Do, "%+v", row)
		require.Equal(t, row.number, number, "%+v", row)
	}
}

// Annotations that no lock file holds, and those of tools that are not known, never loosen a rule.
func TestSet_Match_annotations(t *testing.T) {
	yes, no := true, false
	tools := map[string]*mcp.Tool{
		"unknown": nil, "silent": {}, "reads": {Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}},
	}
	for _, row := range []struct {
		a                      Annotations
		unknown, silent, reads bool
	}{
		{Annotations{ReadOnly: &yes}, false, false, true},
		{Annotations{ReadOnly: &no}, false, true, false},
		{Annotations{Destructive: &yes}, false, true, false},
		{Annotations{Idempotent: &yes}, false, false, true},
		{Annotations{OpenWorld: &yes}, false, true, false},
		{Annotations{ReadOnly: &yes, OpenWorld: &yes}, false, false, false},
	} {
		for _, do := range []Action{Allow, Ask, Deny} {
			for name, want := range map[string]bool{"unknown": row.unknown, "silent": row.silent, "reads": row.reads} {
				call := &mcpvisor.GuardedCall{Definition: tools[name]}
				_, number := compiled(t, true, Rule{Annotations: row.a, Do: do}).Match(call)
				require.Equal(t, want || name == "unknown" && do != Allow, number == 1, "%s %s %+v", name, do, row)
				_, number = compiled(t, false, Rule{Annotations: row.a, Do: do}).Match(call)
				require.Equal(t, do != Allow, number == 1, "%s %s %+v, not trusted", name, do, row)
			}
		}
	}
}

func TestCompile_refuses_typos(t *testing.T) {
	for _, row := range []struct {
		rule Rule
		want string
	}{
		{Rule{}, `the rule does ""`}, {Rule{Do: "Deny"}, `the rule does "Deny"; it is one of "allow", "ask" and "deny"`},
		{Rule{Do: Deny, Tool: strings.Repeat("a", 257)}, "the pattern for tool has 257 bytes"},
		{Rule{Do: Deny, PerMinute: 1}, "nothing to count"}, {Rule{Do: Allow, PerMinute: -1}, "-1 calls a minute"}, {Rule{Do: Ask, PerMinute: 1_000_001}, "between 1 and 1000000"},
	} {
		_, err := Compile([]Rule{row.rule}, true)
		require.ErrorContains(t, err, row.want)
	}
	_, err := Compile(make([]Rule, MaxRules+1), true)
	require.ErrorContains(t, err, "257 rules")
}

// manyRules is a set whose last rule matches the call.
func manyRules(tb testing.TB) (*Set, *mcpvisor.GuardedCall) {
	tb.Helper()
	var all []Rule
	for i := range 20 {
		all = append(all, Rule{Principal: "ci", Server: "files", Tool: fmt.Sprintf("write_%d_*", i), Do: Deny})
	}
	yes := true
	return compiled(tb, true, append(all, Rule{Server: "f*", Tool: "*_file", Annotations: Annotations{OpenWorld: &yes}, Do: Allow})...),
		&mcpvisor.GuardedCall{Principal: "ci", Server: "files", Tool: "write_file", Definition: &mcp.Tool{}}
}

func TestSet_Match_allocates_nothing(t *testing.T) {
	s, call := manyRules(t)
	g := NewGate(nil, Options{})
	g.Set(s)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = s.Match(call) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = g.CheckCall(t.Context(), *call) }), 1.0)
	require.Less(t, testing.Benchmark(BenchmarkSet_Match).NsPerOp(), int64(100*time.Microsecond), "100 times the promise, for slow machines")
}

func BenchmarkSet_Match(b *testing.B) {
	s, call := manyRules(b)
	for b.Loop() {
		if _, number := s.Match(call); number != 21 {
			b.Fatal(number)
		}
	}
}
