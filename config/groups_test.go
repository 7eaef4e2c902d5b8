package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// parseGroups parses a file with the servers db, a, b and "s/t", and these groups.
func parseGroups(t *testing.T, groups string) *File {
	t.Helper()
	text := `{"servers": {"db": {"command": "x"}, "a": {"command": "x"}, "b": {"command": "x"}, "s/t": {"command": "x"}}, "groups": ` + groups + `}`
	f := mustParse(t, []byte(text), "mcp.json", env(map[string]string{"T": "a"}))
	checkSchema(t, []byte(text), f)
	return f
}

// groupProblems are the errors about groups.
func groupProblems(f *File) (all []string) {
	for _, p := range f.Problems {
		if p.Key == "groups" && p.Severity == SeverityError {
			all = append(all, p.String())
		}
	}
	return all
}

func TestGroups(t *testing.T) {
	f := parseGroups(t, `{
		"web": {"members": ["${T}", "inner"], "strategy": "rest_for_one", "intensity": {"restarts": 3, "window": "1m"},
			"when_spent": "park", "park_every": "5m", "start_bound": "30s", "temporary": true, "after": ["db"]},
		"inner": {"members": ["b", "s/t"], "strategy": null},
	}`)
	require.Empty(t, groupProblems(f))
	require.False(t, f.GroupsBroken)
	require.Equal(t, []mcpvisor.Group{
		{Name: "web", Members: []string{"a", "inner"}, Strategy: supervisor.RestForOne, Intensity: supervisor.Intensity{Restarts: 3, Window: time.Minute},
			WhenSpent: supervisor.SpentPark, ParkEvery: 5 * time.Minute, StartBound: 30 * time.Second, Temporary: true, After: []string{"db"}},
		{Name: "inner", Members: []string{"b", "s-t"}},
	}, f.Groups)
	require.Nil(t, mustParse(t, []byte(`{"servers": {}}`), "x").Groups)
}

// What is wrong with one group is an error with its place, and no group is used. The servers are.
func TestGroups_problems(t *testing.T) {
	for groups, says := range map[string]string{
		`7`:                                                       `"groups" must be an object; write {"web": {"members": ["browser", "scraper"]}}`,
		`{"g": ["a"]}`:                                            `"groups.g" must be an object`,
		`{"g": {"member": ["a"]}}`:                                `unknown key "groups.g.member"; did you mean "members"?`,
		`{"g": {"members": "a"}}`:                                 `"groups.g.members" must be a list of strings`,
		`{"g": {"members": ["a", "dbb"]}}`:                        `no server or group is called "dbb", which "groups.g.members" names; did you mean "db"?`,
		`{"g": {"after": ["nothing-of-this"]}}`:                   `no server or group is called "nothing-of-this", which "groups.g.after" names; remove it, or add the server`,
		`{"g": {"strategy": "all"}}`:                              `"groups.g.strategy" is "all"; use "one_for_one", "rest_for_one" or "one_for_all"`,
		`{"g": {"when_spent": "stop"}}`:                           `"groups.g.when_spent" is "stop"; use "park", "evict" or "parent"`,
		`{"g": {"intensity": 3}}`:                                 `"groups.g.intensity" must be an object; write {"restarts": 3, "window": "1m"}`,
		`{"g": {"intensity": {"restarts": 3}}}`:                   `group "g": intensity is 3 restarts in 0s; set a window`,
		`{"g": {"start_bound": "-1s"}}`:                           `group "g": a time is negative`,
		`{"g h": {"members": ["a"]}}`:                             `group "g h": `,
		`{"a": {"members": ["b"]}}`:                               `"a" is also the name of a server; rename one of them`,
		`{"g": {"members": ["a"]}, "h": {"members": ["b", "a"]}}`: `"a" is a member of a group already (mcp.json:1), and has one place; remove it here or there`,
		`{"g": {"members": ["h"]}, "h": {"members": ["g"]}}`:      `wait for each other in a circle`,
		`{"g": {"members": ["a"], "after": ["g"]}}`:               `wait for each other in a circle`,
		`{"g": {"members": ["${NOT_SET}"]}}`:                      `NOT_SET`,
	} {
		f := parseGroups(t, groups)
		problems := groupProblems(f)
		require.Len(t, problems, 1, "%s: %v", groups, f.Problems)
		require.Contains(t, problems[0], "config mcp.json:1:", groups)
		require.Contains(t, problems[0], says, groups)
		require.True(t, f.GroupsBroken)
		require.Empty(t, f.Groups, groups)
		require.Len(t, f.Servers, 4, "the servers are used")
	}
	for text, says := range map[string]string{
		`{"servers": {}, "groups": {}, "groups": {}}`:              `"groups" is there twice`,
		`{"servers": {}, "groups": {"g": {},` + "\n" + `"g": {}}}`: `config mcp.json:2:1: group "g" is defined twice (first on line 1); rename or remove one`,
	} {
		f := mustParse(t, []byte(text), "mcp.json")
		require.Contains(t, strings.Join(groupProblems(f), "\n"), says)
		require.True(t, f.GroupsBroken)
	}
}

// A circle has a path and a place. Entries that wait for each other without groups cannot be used; a circle through a
// group costs the groups.
func TestAfter_circle(t *testing.T) {
	text := `{"servers": {
"a": {"command": "x", "after": ["b"]},
"b": {"command": "x", "after": ["c"]},
"c": {"command": "x", "after": ["a"]},
"d": {"command": "x", "after": ["a"]},
"e": {"command": "x", "after": ["e2", "g"]},
"e2": {"command": "x"}},
"groups": {
"h": {"members": ["d"]},
"g": {"members": ["e"]}}}`
	f := mustParse(t, []byte(text), "mcp.json")
	checkSchema(t, []byte(text), f)
	require.Equal(t, []string{"a", "b", "c"}, f.Broken(), "d comes after one of them, and is no part of the circle")
	var texts []string
	for _, p := range f.Problems {
		texts = append(texts, p.String())
	}
	require.Len(t, texts, 4, "%v", texts)
	require.Equal(t, `config mcp.json:10:1: groups: "g" → "e" → "g" wait for each other in a circle; change "after", the order or the nesting of one of them`, texts[3])
	for i, place := range []string{`3:32: server "b": `, `4:32: server "c": `, `2:32: server "a": `} {
		require.Contains(t, texts, `config mcp.json:`+place+`groups: "a" → "b" → "c" → "a" wait for each other in a circle; change "after", the order or the nesting of one of them`, i)
	}
	require.True(t, f.GroupsBroken)
	require.Empty(t, f.Groups)
	for _, s := range f.Unusable {
		require.Equal(t, mcpvisor.ServerSpec{Name: s.Entry, Origin: fmt.Sprintf("mcp.json:%d", s.Line)}, s.Spec)
	}
}

// Names in "after" are those of entries or groups of any file; another one costs the entry.
func TestAfter(t *testing.T) {
	f, problems := readEntry(t, `"command": "x", "after": ["ohter"]`)
	require.NotContains(t, problems, "\n")
	require.Contains(t, problems, `no server or group is called "ohter", which "after" names; remove it, or add the server`)
	require.Empty(t, f.Servers)

	f = mustParse(t, []byte(`{"servers": {"app": {"command": "x", "after": ["elsewhere"]}}, "groups": {"g": {"members": ["elsewhere"]}}}`), "mcp.json", WithOtherServers())
	require.Equal(t, []string{"elsewhere"}, f.Servers[0].Spec.After)
	require.Len(t, groupProblems(f), 1)

	dir := writeFiles(t, map[string]string{"0": `{"servers": {"app": {"command": "x", "after": ["s/t", "g"]}}}`, "1": `{"servers": {"s/t": {"command": "x"}}, "groups": {"g": {"members": ["s/t"]}}}`})
	f = mustLoadFiles(t, []string{filepath.Join(dir, "0"), filepath.Join(dir, "1")})
	server, _ := f.Find("app")
	require.Equal(t, []string{"s-t", "g"}, server.Spec.After)
	require.Empty(t, groupProblems(f))
}

// A group of a later file replaces one of an earlier file as a whole, and nothing of that is read.
func TestLoadFiles_groups(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"0": `{"servers": {"a": {"command": "x"}, "b": {"command": "x"}}, "groups": {"one": {"members": ["a"], "nonsense": 1}, "two": {"members": ["b"]}}}`,
		"1": `{"servers": {}, "groups": {"one": {"strategy": "one_for_all"}, "three": {"members": ["a"]}}}`})
	f := mustLoadFiles(t, []string{filepath.Join(dir, "0"), filepath.Join(dir, "1")})
	require.Empty(t, f.Problems)
	require.Equal(t, []mcpvisor.Group{{Name: "two", Members: []string{"b"}}, {Name: "one", Strategy: supervisor.OneForAll}, {Name: "three", Members: []string{"a"}}}, f.Groups)
}

// Each row of the table has an example that is read, and that the schema accepts.
func TestGroups_keys(t *testing.T) {
	for _, k := range flatten(nil, "", groupRows) {
		require.NotEmpty(t, k.Meaning)
		require.True(t, json.Valid([]byte(k.Example)), k.Name)
		text := `{"servers": {"browser": {"command": "x"}, "scraper": {"command": "x"}, "db": {"command": "x"}}, "groups": {"g": {KEY}}}`
		value := fmt.Sprintf("%q: %s", k.Name, k.Example)
		if outer, inner, nested := strings.Cut(k.Name, "."); nested {
			value = fmt.Sprintf(`%q: {"window": "1s", %q: %s}`, outer, inner, k.Example)
			if inner == "window" {
				value = fmt.Sprintf(`%q: {%q: %s}`, outer, inner, k.Example)
			}
		}
		text = strings.Replace(text, "KEY", value, 1)
		f := mustParse(t, []byte(text), "mcp.json")
		checkSchema(t, []byte(text), f)
		require.Empty(t, f.Problems, k.Name)
		require.NotEqual(t, []mcpvisor.Group{{Name: "g"}}, f.Groups, k.Name)
	}
}

func TestStart(t *testing.T) {
	for text, want := range map[string]mcpvisor.StartMode{`"lazy"`: mcpvisor.StartLazy, `"eager"`: mcpvisor.StartEager, `null`: mcpvisor.StartEager} {
		f, problems := readEntry(t, `"command": "x", "start": `+text)
		require.Empty(t, problems)
		require.Equal(t, want, f.Servers[0].Spec.Start)
	}
	for text, says := range map[string]string{
		`"start": "late"`:                  `"start" is "late"; use "eager" or "lazy"`,
		`"idle_stop": "10ms"`:              `idle stop is 10ms; use 0 for never, or at least 1s`,
		`"standby": true, "start": "lazy"`: `remove "standby", or "transient", "start" and "idle_stop"`,
		`"after": ["s"]`:                   `"s" waits for itself`,
	} {
		_, problems := readEntry(t, `"command": "x", `+text)
		require.NotContains(t, problems, "\n", text)
		require.Contains(t, problems, says)
	}
}
