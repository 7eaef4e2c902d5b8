package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/rules"
)

func TestRules(t *testing.T) {
	yes := true
	text := `{"lock": "enforce", "servers": {"a/b": {"command": "x"}, "fs": {"command": "x"}},
"rules": [
  {"principal": "ci", "server": "a/b", "tool": "write_*", "do": "deny"}, // in order
  {"annotations": {"destructiveHint": true}, "do": "ask"},
  {"do": "allow"}
]}`
	f := mustParse(t, []byte(text), "mcp.json")
	checkSchema(t, []byte(text), f)
	server := f.Servers[0].Spec.Name
	require.NotEqual(t, "a/b", server)
	require.Equal(t, []rules.Rule{
		{Principal: "ci", Server: server, Tool: "write_*", Do: rules.Deny, Source: "mcp.json:3"},
		{Annotations: rules.Annotations{Destructive: &yes}, Do: rules.Ask, Source: "mcp.json:4"},
		{Do: rules.Allow, Source: "mcp.json:5"}}, f.Rules)
	for _, p := range f.Problems {
		require.Equal(t, SeverityWarning, p.Severity, p.Message) // of the name a/b
	}
}

// A typo is an error, and the rule that has it denies what reaches it.
func TestRules_typos(t *testing.T) {
	for rule, want := range map[string]string{
		`{"tool": "x"}`:                                              `"rules[1]" cannot be used: the rule does ""`,
		`{"tool": "x", "do": "Ask"}`:                                 `"rules[1].do" is "Ask"; use "allow", "ask" or "deny"`,
		`{"tol": "x", "do": "deny"}`:                                 `did you mean "tool"?`,
		`{"tool": "", "do": "allow"}`:                                `"rules[1].tool" is empty`,
		`{"tool": null, "do": "allow"}`:                              `"rules[1].tool" has no value`,
		`{"annotations": {}, "do": "allow"}`:                         `"rules[1].annotations" has no value`,
		`{"tool": ["x"], "do": "allow"}`:                             `"rules[1].tool" must be a string`,
		`{"tool": "x", "tool": "y", "do": "allow"}`:                  `"rules[1].tool" is set twice`,
		`{"server": "f", "do": "allow"}`:                             `no server is called "f", which a rule names; did you mean "fs"?`,
		`{"tool": "fs/x", "do": "allow"}`:                            `the tool "fs/x" is looked for among names without a server; write "server": "fs", "tool": "x"`,
		`{"tool": "fss/x", "do": "deny"}`:                            `the tool "fss/x" is looked for among names without a server`,
		`"deny"`:                                                     `"rules[1]" must be an object`,
		`{"annotations": {"readOnlyHint": true}, "do": "allow"}`:     `a rule over annotations needs "lock": "enforce"`,
		`{"annotations": {"readOnly": true}, "do": "deny"}`:          `use one of readOnlyHint`,
		`{"tool": "` + strings.Repeat("a", 257) + `", "do": "deny"}`: `the pattern for tool has 257 bytes`,
	} {
		f := mustParse(t, fmt.Appendf(nil, `{"servers": {"fs": {"command": "x"}}, "rules": [{"do": "ask", "tool": "y"}, %s, {"do": "allow"}]}`, rule), "mcp.json")
		require.NotEmpty(t, f.Problems, rule)
		last := f.Problems[len(f.Problems)-1]
		require.Equal(t, SeverityError, last.Severity)
		require.Contains(t, last.Message, want, rule)
		require.Contains(t, last.Message, "until then the rule denies every call")
		require.Equal(t, []rules.Rule{{Tool: "y", Do: rules.Ask, Source: "mcp.json:1"}, {Do: rules.Deny, Source: "mcp.json:1"}, {Do: rules.Allow, Source: "mcp.json:1"}}, f.Rules, rule)
	}
	for list, want := range map[string]string{
		`"rules": {}`: `"rules" must be a list`, `"rules": [], "rules": []`: `"rules" is there twice`,
		`"rules": [` + strings.Repeat(`{"do": "allow"}, `, rules.MaxRules) + `{"do": "allow"}]`: "there are more than 256 rules",
	} {
		f := mustParse(t, fmt.Appendf(nil, `{"servers": {"fs": {"command": "x"}}, %s}`, list), "mcp.json")
		require.Contains(t, f.Problems[0].Message, want)
		require.Equal(t, []rules.Rule{{Do: rules.Deny, Source: "mcp.json:1"}}, f.Rules)
	}
}

// A misspelt key at the top costs no protection: rules then deny every call, and the lock file counts as enforced. What other hosts
// have under a similar name is left alone.
func TestParse_misspelt_at_the_top(t *testing.T) {
	for member, want := range map[string]string{
		`"Rules": [{"do": "allow"}]`:  `unknown key "Rules", whose value is a list of rules; call it "rules"; until then the rule denies every call`,
		`"rulez": [{"do": "allow"}]`:  `unknown key "rulez", whose value is a list of rules`,
		`"Lock": "off"`:               `unknown key "Lock", whose value is one of "lock", so that counts as "enforce"; call it "lock"`,
		`"lokc": "warn"`:              `unknown key "lokc"`,
		`"log": "warn"`:               `unknown key "log" is ignored; did you mean "lock"?`,
		`"recrods": "dir"`:            `unknown key "recrods" is ignored; did you mean "records"?`,
		`"Journal": "x"`:              `unknown key "Journal" is ignored; did you mean "journal"?`,
		`"gatway": {}`:                `unknown key "gatway" is ignored; did you mean "gateway"?`,
		`"tools": {"do": "x"}`:        "",
		`"roles": ["admin"]`:          "",
		`"clock": "12h"`:              "",
		`"records2": {}, "logs": "x"`: "",
	} {
		f := mustParse(t, fmt.Appendf(nil, `{"servers": {"fs": {"command": "x"}}, %s}`, member), "mcp.json")
		if want == "" {
			require.Empty(t, f.Problems, member)
			continue
		}
		require.Len(t, f.Problems, 1, member)
		require.Contains(t, f.Problems[0].Message, want)
		switch severity := f.Problems[0].Severity; {
		case strings.Contains(want, "list of rules"):
			require.Equal(t, SeverityError, severity)
			require.Equal(t, []rules.Rule{{Do: rules.Deny, Source: "mcp.json:1"}}, f.Rules)
		case strings.Contains(want, "ignored"):
			require.Equal(t, SeverityWarning, severity)
		default:
			require.Equal(t, SeverityError, severity)
			require.Equal(t, "enforce", f.Lock)
			require.Equal(t, "mcpvisor.lock", filepath.Base(f.LockPath))
		}
	}
}

// The rules of an earlier file come first: a later file does not loosen them.
func TestLoadFiles_rules(t *testing.T) {
	dir := writeFiles(t, map[string]string{"0": `{"servers": {}, "rules": [{"tool": "x", "do": "deny"}]}`, "1": `{"servers": {}, "rules": [{"do": "allow"}]}`})
	f := mustLoadFiles(t, []string{filepath.Join(dir, "0"), filepath.Join(dir, "1")})
	require.Empty(t, f.Problems)
	require.Len(t, f.Rules, 2)
	require.Equal(t, rules.Deny, f.Rules[0].Do)
	require.Equal(t, filepath.Join(dir, "1")+":1", f.Rules[1].Source)
}

// Each row of the table has an example that is read, and that the schema accepts.
func TestRules_keys(t *testing.T) {
	for _, k := range flatten(nil, "", ruleRows) {
		key, value := k.Name, k.Example
		if outer, inner, nested := strings.Cut(k.Name, "."); nested {
			key, value = outer, fmt.Sprintf(`{%q: %s}`, inner, k.Example)
		}
		text := fmt.Sprintf(`{"lock": "enforce", "servers": {"fs": {"command": "x"}}, "rules": [{%q: %s, "do": "ask"}]}`, key, value)
		if key == "do" {
			text = fmt.Sprintf(`{"servers": {"fs": {"command": "x"}}, "rules": [{"do": %s}]}`, value)
		}
		f := mustParse(t, []byte(text), "mcp.json")
		checkSchema(t, []byte(text), f)
		require.Empty(t, f.Problems, k.Name)
		require.Equal(t, key == "do", reflect.DeepEqual(f.Rules, []rules.Rule{{Do: rules.Ask, Source: "mcp.json:1"}}), k.Name)
	}
}
