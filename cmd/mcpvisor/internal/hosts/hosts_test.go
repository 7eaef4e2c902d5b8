package hosts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// secrets are the values in testdata that no output may show.
var secrets = []string{"ghp_0123", "pa55word", "sk-cursor", "tok0123", "key0123", "q0123", "oauth-secret", "pplx-", "ctx7sk", "zed-secret", "zed0123", "oc0123", "goose-secret"}

// machine is a machine of a system, with files of all hosts.
type machine struct {
	env   Environment
	files []string // as written
}

// files are the places of the files of testdata on each system, from the home directory and
// from that of the project.
var files = map[string]map[string]string{
	"linux": {
		"claude-desktop.json": ".config/Claude/claude_desktop_config.json", "claude-code.json": ".claude.json", "cursor.json": ".cursor/mcp.json",
		"vscode.json": ".config/Code/User/mcp.json", "codex.toml": ".codex/config.toml", "gemini.json": ".gemini/settings.json",
		"zed.json": ".config/zed/settings.json", "windsurf.json": ".codeium/windsurf/mcp_config.json", "opencode.json": ".config/opencode/opencode.json", "goose.yaml": ".config/goose/config.yaml",
	},
	"darwin": {
		"claude-desktop.json": "Library/Application Support/Claude/claude_desktop_config.json", "claude-code.json": ".claude.json", "cursor.json": ".cursor/mcp.json",
		"vscode.json": "Library/Application Support/Code/User/mcp.json", "codex.toml": ".codex/config.toml", "gemini.json": ".gemini/settings.json",
		"zed.json": ".config/zed/settings.json", "windsurf.json": ".codeium/windsurf/mcp_config.json", "opencode.json": ".config/opencode/opencode.json", "goose.yaml": ".config/goose/config.yaml",
	},
	"windows": {
		"claude-desktop.json": "AppData/Roaming/Claude/claude_desktop_config.json", "claude-code.json": ".claude.json", "cursor.json": ".cursor/mcp.json",
		"vscode.json": "AppData/Roaming/Code/User/mcp.json", "codex.toml": ".codex/config.toml", "gemini.json": ".gemini/settings.json",
		"zed.json": "AppData/Roaming/Zed/settings.json", "windsurf.json": ".codeium/windsurf/mcp_config.json", "opencode.json": ".config/opencode/opencode.json", "goose.yaml": "AppData/Roaming/Block/goose/config/config.yaml",
	},
}

func newMachine(t *testing.T, system string) *machine {
	t.Helper()
	home, project := t.TempDir(), t.TempDir()
	m := &machine{env: Environment{OS: system, Home: home, Dir: project}}
	if system == "windows" {
		m.env.AppData = filepath.Join(home, "AppData", "Roaming")
	}
	write := func(name, path string) {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		text = []byte(strings.ReplaceAll(string(text), "@DIR@", filepath.ToSlash(project)))
		require.NoError(t, os.WriteFile(path, text, 0o600))
		m.files = append(m.files, path)
	}
	for name, path := range files[system] {
		write(name, filepath.Join(home, filepath.FromSlash(path)))
	}
	write("claude-code-project.json", filepath.Join(project, ".mcp.json"))
	write("vscode-project.json", filepath.Join(project, ".vscode", "mcp.json"))
	require.NoError(t, os.WriteFile(filepath.Join(project, ".env"), []byte("A=1\n"), 0o600))
	return m
}

// sources returns the files of all hosts on the machine.
func (m *machine) sources() (found []Source) {
	for _, h := range All() {
		found = append(found, h.Find(m.env)...)
	}
	return found
}

// content returns what the hosts' files hold, and when they were changed.
func (m *machine) content(t *testing.T) (all []string) {
	t.Helper()
	for _, path := range m.files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		all = append(all, path, string(text), info.ModTime().String(), info.Mode().String())
	}
	return all
}

func (m *machine) plan(t *testing.T, path string, clash Clash, sources ...Source) (*configfile.File, *Plan) {
	t.Helper()
	target, err := configfile.Open(path)
	require.NoError(t, err)
	if sources == nil {
		sources = m.sources()
	}
	p, err := NewPlan(target, sources, m.env, clash, func(name string) (string, bool) {
		v, ok := map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "another", "SEARCH_TOKEN": "sk-cursor0123456789abcdef"}[name]
		return v, ok
	})
	require.NoError(t, err)
	return target, p
}

// item returns an item of a plan by the name in the host's file.
func item(t *testing.T, p *Plan, host, name string) Item {
	t.Helper()
	i := slices.IndexFunc(p.Items, func(i Item) bool { return i.Host == host && (i.Name == name || i.Entry == name) })
	require.GreaterOrEqual(t, i, 0, "%s of %s", name, host)
	return p.Items[i]
}

// The files of every host are found on every system, and all of them can be imported. A
// second import changes nothing, and no file of a host is touched.
func TestPlan(t *testing.T) {
	for system := range files {
		t.Run(system, func(t *testing.T) {
			m := newMachine(t, system)
			before := m.content(t)
			require.Len(t, m.sources(), len(m.files))
			path := filepath.Join(t.TempDir(), "mcpvisor", "mcp.json")
			target, p := m.plan(t, path, Keep)
			require.Empty(t, p.Unreadable)
			require.Equal(t, 27, p.Count(ActionAdd))
			require.Equal(t, 2, p.Count(ActionClash))
			require.Equal(t, 3, p.Count(ActionRefuse))
			require.NoFileExists(t, path, "a plan writes nothing")
			for _, i := range p.Items {
				require.NotZero(t, i.Line, "%+v", i)
				require.Contains(t, m.files, i.Path)
			}
			require.NoError(t, target.Write())

			text, err := os.ReadFile(path)
			require.NoError(t, err)
			golden := filepath.Join("testdata", "imported.json")
			shown := strings.ReplaceAll(string(text), m.env.Dir, "/project")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(shown), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), shown, "the same on every system")

			again, second := m.plan(t, path, Keep)
			written, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(written), string(again.Bytes()), "a second import changes nothing")
			require.Zero(t, second.Count(ActionAdd)+second.Count(ActionReplace))
			require.Equal(t, 27, second.Count(ActionSame))
			require.Equal(t, before, m.content(t), "the files of the hosts are only read")
		})
	}
}

// Secrets become variables: their values are neither in the file nor in the plan.
func TestPlan_secrets(t *testing.T) {
	m := newMachine(t, "linux")
	target, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Rename)
	var shown strings.Builder
	for _, i := range p.Items {
		shown.WriteString(i.Target + i.Reason + strings.Join(i.Notes, " "))
	}
	names := map[string]*Variable{}
	for _, v := range p.Variables {
		shown.WriteString(v.Name + strings.Join(v.For, " "))
		names[v.Name] = v
	}
	for _, secret := range secrets {
		require.NotContains(t, string(target.Bytes()), secret)
		require.NotContains(t, shown.String(), secret)
	}
	require.Equal(t, []string{"env.GITHUB_PERSONAL_ACCESS_TOKEN of github (Claude Desktop " + m.sources()[0].Path + ":8)"}, names["GITHUB_PERSONAL_ACCESS_TOKEN"].For)
	require.True(t, names["GITHUB_PERSONAL_ACCESS_TOKEN"].Differs)
	require.True(t, names["SEARCH_TOKEN"].Set)
	require.False(t, names["SEARCH_TOKEN"].Differs)
	for _, name := range []string{"DB_DSN", "REMOTE_HEADER", "REMOTE_API_KEY", "QUERY_URL_SECRET", "WEB_CLIENT_SECRET", "CONTEXT7_API_KEY", "REMOTE_TOKEN"} {
		require.Contains(t, names, name)
		require.False(t, names[name].Set)
	}

	// With the variables set, the servers are configured as the hosts configured them.
	values := map[string]string{"LOCAL_TOKEN": "l", "FIGMA_OAUTH_TOKEN": "f", "FIGMA_TEAM": "t", "HOME": "/h", "MY_TOKEN": "m", "OPENCODE_KEY": "oc", "DRIVE_TOKEN": "d", "TICKETS_TOKEN": "t", "GITHUB_PAT": "p"}
	for _, v := range p.Variables {
		if v.value != "" { // one that an entry refers to has none
			values[v.Name] = v.value
		}
	}
	f, err := config.Parse(target.Bytes(), "mcp.json", config.WithInput(func(config.Input) (string, error) { return "answer", nil }),
		config.WithLookup(func(name string) (string, bool) { v, ok := values[name]; return v, ok }))
	require.NoError(t, err)
	spec := func(name string) config.Server {
		s, ok := f.Find(name)
		require.True(t, ok, "%s: %v", name, f.Problems)
		return s
	}
	require.Equal(t, "ghp_0123456789abcdefghijABCDEFGHIJ012345", spec("github").Spec.Stdio.Env["GITHUB_PERSONAL_ACCESS_TOKEN"])
	require.Equal(t, "p", spec("github-cursor").Spec.Stdio.Env["GITHUB_PERSONAL_ACCESS_TOKEN"])
	require.Equal(t, "postgres://app:pa55word99@db.example/app", spec("db").Spec.Stdio.Args[1])
	require.Equal(t, map[string]string{"Authorization": "Bearer sk-cursor0123456789abcdef", "X-Region": "eu"}, spec("search").Spec.HTTP.Headers)
	require.Equal(t, []string{"mcp-remote", "https://r.example/sse", "--header", "Authorization: Bearer tok0123456789abcdefXYZ", "--api-key=key0123456789ABCDEF0"}, spec("remote").Spec.Stdio.Args)
	require.Equal(t, "https://q.example/mcp?api_key=q0123456789abcdefABCDEF&region=eu", spec("query").Spec.HTTP.URL)
	require.Equal(t, "oauth-secret-0123456789", spec("web").Spec.HTTP.Auth.(*oauth.Config).ClientSecret)
	require.Equal(t, "answer", spec("perplexity").Spec.Stdio.Env["PERPLEXITY_API_KEY"])
	require.Equal(t, filepath.Join(m.env.Dir, "sub"), spec("workspace").Spec.Stdio.Dir, "paths of the project stay true in another directory")
	require.Equal(t, []string{"-m", "server", "/h/data"}, spec("python").Spec.Stdio.Args, "Gemini CLI's $VAR")
	require.True(t, spec("figma").Disabled)
	require.Equal(t, map[string]string{"API_KEY": "oc", "PRICE": "${5}"}, spec("playwright").Spec.Stdio.Env, "{env:NAME} of OpenCode")
	require.Equal(t, []string{"-y", "@playwright/mcp"}, spec("playwright").Spec.Stdio.Args)
	require.Equal(t, 90*time.Second, spec("playwright").Spec.Timeouts.Call)
	require.Equal(t, map[string]string{"X-Api-Key": "oc0123456789abcdefABCDEF"}, spec("jira").Spec.HTTP.Headers)
	require.True(t, spec("wiki").Disabled)
	require.Equal(t, map[string]string{"REGION": "eu", "PORT": "8080", "DRIVE_PASSWORD": "goose-secret-0123456789", "DRIVE_TOKEN": "d"}, spec("drive").Spec.Stdio.Env)
	require.Equal(t, []string{"search"}, spec("drive").Spec.Tools.Allow)
	require.True(t, spec("tickets").Disabled)
	require.True(t, spec("events").Spec.HTTP.SSE)
}

// Version 2 of OpenCode has its servers one level deeper, and two timeouts.
func TestPlan_OpenCode_2(t *testing.T) {
	target, _ := planOf(t, "opencode", `{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "disabled": true, "timeout": {"startup": 20000, "request": 900000}}}}}`)
	f, err := config.Parse([]byte(strings.Replace(target, `"disabled": true`, `"disabled": false`, 1)), "mcp.json")
	require.NoError(t, err)
	require.Equal(t, mcpvisor.Timeouts{Start: 20 * time.Second, Call: 15 * time.Minute, CallTotal: 15 * time.Minute}, f.Servers[0].Spec.Timeouts)
}

// A secret in a command that is a list is protected.
func TestPlan_command_as_a_list(t *testing.T) {
	target, p := planOf(t, "cursor", `{"mcpServers": {"a": {"command": ["x", "--api-key=key0123456789ABCDEF0"], "args": ["last"]}}}`)
	require.Equal(t, ActionAdd, item(t, p, "Cursor", "a").Action)
	require.NotContains(t, target, "key0123456789ABCDEF0")
	require.Contains(t, target, `"args": ["--api-key=${A_API_KEY}", "last"]`)
}

// Aliases in YAML cannot make a small file large, and neither an error nor a cycle ends the import.
func TestReadGoose_rejected(t *testing.T) {
	bomb := "extensions:\n  a: &a {k: v}\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("  %c: &%c {k: [*%c, *%c, *%c, *%c, *%c, *%c]}\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	entries, _, err := readGoose([]byte(bomb), Environment{})
	require.NoError(t, err)
	require.Error(t, entries[len(entries)-1].err)
	entries, _, err = readGoose([]byte("extensions:\n  a: &a {k: *a}\n  b: text\n  c: {1: 2}\n"), Environment{})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	for _, r := range entries[:2] {
		require.Error(t, r.err)
	}
	_, _, err = readGoose([]byte("extensions:\n  a: [ghp_secret\n"), Environment{})
	require.ErrorContains(t, err, "it is not valid YAML in line")
	require.NotContains(t, err.Error(), "ghp_")
	for _, text := range []string{"", "extensions: [a]", "other: 1"} {
		entries, _, err = readGoose([]byte(text), Environment{})
		require.NoError(t, err, text)
		require.Empty(t, entries)
	}
}

// A server behind a WebSocket can be taken over.
func TestCheck_WebSocket(t *testing.T) {
	item := &Item{Name: "s"}
	require.NoError(t, check(object{{Key: "type", Value: "ws"}, {Key: "url", Value: "wss://h.example/mcp"}, {Key: "headers", Value: object{{Key: "Authorization", Value: "Bearer ${TOKEN}"}}}}, item))
	require.ErrorContains(t, check(object{{Key: "type", Value: "ws"}, {Key: "url", Value: "https://h.example/mcp"}}, item), "must begin with ws:// or wss://")
}

// An address may be a variable, whole or in part: what it stands for is not known yet.
func TestCheck_address_of_variables(t *testing.T) {
	for _, c := range []struct{ kind, url, refused string }{
		{"", "${URL}", ""}, {"http", "${env:URL}", ""}, {"sse", "${URL}/sse", ""}, {"ws", "${URL}", ""}, {"websocket", "${URL}", ""}, {"http", "${input:address}", ""},
		{"ws", "wss://${HOST}:${PORT}/mcp", ""}, {"http", "http://localhost:${PORT}/mcp", ""},
		{"ws", "https://${HOST}/mcp", "must begin with ws:// or wss://"}, {"http", "ftp://${HOST}", "must begin with http:// or https://"},
		{"http", "localhost:8080", "must begin with http:// or https://"}, {"http", "https://${}/mcp", "is not a variable"},
	} {
		entry := object{{Key: "url", Value: c.url}}
		if c.kind != "" {
			entry.Set("type", c.kind)
		}
		err := check(entry, &Item{Name: "s"})
		if c.refused == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.refused, "%+v", c)
		}
		require.Equal(t, c.url, entry.Get("url"))
	}
}

// A host that replaces no variables cannot mean the text ${URL} as an address.
func TestLiteral_address(t *testing.T) {
	item := &Item{Name: "s"}
	entry := literal(object{{Key: "url", Value: "${URL}"}, {Key: "headers", Value: object{{Key: "X", Value: "a"}}}}, "Zed", item)
	require.Equal(t, "${URL}", entry.Get("url"))
	require.Equal(t, []string{`the variable in "url" is replaced here, which Zed does not do`}, item.Notes)
	require.NoError(t, check(entry, item))
}

var update = flag.Bool("update", false, "rewrite testdata/imported.json")

// What is left out, renamed or refused is told.
func TestPlan_notes(t *testing.T) {
	m := newMachine(t, "linux")
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep)
	for _, c := range []struct{ host, name, says string }{
		{"Claude Code", "local", "left out, because mcpvisor has no such key: alwaysAllowed"},
		{"VS Code", "perplexity", "left out, because mcpvisor has no such key: gallery, dev"},
		{"VS Code", "perplexity", `its input "perplexity-key" is added to "inputs"`},
		{"VS Code", "microsoft/playwright-mcp", `called "microsoft-playwright-mcp", because`},
		{"Codex", "context7", "left out, because mcpvisor has no such key: required"},
		{"Gemini CLI", "python", "left out, because mcpvisor has no such key: trust"},
		{"Windsurf", "devin", "left out, because mcpvisor has no such key: alwaysAllow"},
	} {
		notes := item(t, p, c.host, c.name).Notes
		found := false
		for _, note := range notes {
			found = found || len(note) >= len(c.says) && note[:len(c.says)] == c.says
		}
		require.True(t, found, "%s of %s: %q", c.name, c.host, notes)
	}
	refused := item(t, p, "Zed", "extension")
	require.Equal(t, ActionRefuse, refused.Action)
	require.Contains(t, refused.Reason, "an extension of Zed starts it")
	require.Contains(t, item(t, p, "goose", "developer").Reason, `it has type "builtin", which goose runs itself`)
}

// Two hosts may have different servers of one name. The user decides which one counts.
func TestPlan_clash(t *testing.T) {
	m := newMachine(t, "linux")
	path := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(path, []byte("{\n  // mine\n  \"mcpServers\": {\n    \"github\": {\"command\": \"mine\"},\n    \"older\": {\"command\": \"older-server\", \"args\": [\"--stdio\"], \"env\": {\"A\": \"b\"}}\n  }\n}\n"), 0o600))

	target, p := m.plan(t, path, Keep)
	for _, host := range []string{"Claude Desktop", "Cursor"} {
		require.Equal(t, ActionClash, item(t, p, host, "github").Action)
		require.Equal(t, path+":4", item(t, p, host, "github").Reason)
	}
	require.Equal(t, ActionSame, item(t, p, "Zed", "older").Action)
	require.Contains(t, string(target.Bytes()), `"github": {"command": "mine"}`)

	_, p = m.plan(t, path, Replace)
	require.Equal(t, ActionReplace, item(t, p, "Claude Desktop", "github").Action)
	second := item(t, p, "Cursor", "github")
	require.Equal(t, ActionClash, second.Action, "of two hosts the first one wins")
	require.Contains(t, second.Reason, "Claude Desktop ")

	target, p = m.plan(t, path, Rename)
	require.Equal(t, "github-claude-desktop", item(t, p, "Claude Desktop", "github").Name)
	require.Equal(t, "github-cursor", item(t, p, "Cursor", "github").Name)
	require.NoError(t, target.Write())
	again, p := m.plan(t, path, Rename)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(written), string(again.Bytes()))
	require.Equal(t, ActionSame, item(t, p, "Cursor", "github").Action)
}

// A file that cannot be read is told, without its content, and does not stop the others.
func TestPlan_unreadable(t *testing.T) {
	m := newMachine(t, "linux")
	for path, text := range map[string]string{".cursor/mcp.json": `{"mcpServers": {"a": ghp_secret`, ".codex/config.toml": "x = ghp_secret",
		".gemini/settings.json": `[]`, ".codeium/windsurf/mcp_config.json": "", ".config/Claude/claude_desktop_config.json": `{"mcpServers": {"a": 1, "b": {}, "c": {"command": {"path": "x"}}}}`} {
		require.NoError(t, os.WriteFile(filepath.Join(m.env.Home, path), []byte(text), 0o600))
	}
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep)
	require.Len(t, p.Unreadable, 3, "an empty file has no servers")
	for i, says := range []string{"(Cursor): it is not valid JSON in line 1; correct", "(Codex): it is not valid TOML in line 1; correct", "(Gemini CLI): it is not a JSON object"} {
		require.Contains(t, p.Unreadable[i], says)
		require.NotContains(t, p.Unreadable[i], "ghp_")
	}
	require.Equal(t, "it is not an object", item(t, p, "Claude Desktop", "a").Reason)
	require.Contains(t, item(t, p, "Claude Desktop", "b").Reason, `has neither "command" nor "url"`)
	require.Contains(t, item(t, p, "Claude Desktop", "c").Reason, `"command" must be a string`)
	require.Positive(t, p.Count(ActionAdd))
}

// The places follow the variables that the hosts follow.
func TestFind_by_variables(t *testing.T) {
	e := Environment{OS: "linux", Home: "/h", XDGConfig: "/x", ClaudeConfig: "/c", CodexHome: "/d", Dir: "/p"}
	for id, want := range map[string]string{"claude-desktop": "/x/Claude/claude_desktop_config.json", "claude-code": "/c/.claude.json",
		"codex": "/d/config.toml", "zed": "/x/zed/settings.json", "vscode": "/x/Code/User/mcp.json", "cursor": "/h/.cursor/mcp.json"} {
		h, ok := ByID(id)
		require.True(t, ok)
		require.Equal(t, filepath.FromSlash(want), h.Paths(e)[0], id)
	}
	_, ok := ByID("notepad")
	require.False(t, ok)
	e = Environment{OS: "windows", Home: "/h"}
	h, _ := ByID("claude-desktop")
	require.Equal(t, filepath.FromSlash("/h/AppData/Roaming/Claude/claude_desktop_config.json"), h.Paths(e)[0], "without APPDATA")
	here, err := Here()
	require.NoError(t, err)
	require.NotEmpty(t, here.Dir)
}

// Variables that a host's file names, without a value, have to be set as well.
func TestPlan_lists_variables_that_entries_refer_to(t *testing.T) {
	dir := t.TempDir()
	codex, claude := filepath.Join(dir, "config.toml"), filepath.Join(dir, "claude.json")
	require.NoError(t, os.WriteFile(codex, []byte(`[mcp_servers.figma]
url = "https://figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
env_http_headers = { "X-Team" = "FIGMA_TEAM", "X-Known" = "KNOWN" }
[mcp_servers.local]
command = "local"
env_vars = ["OPTIONAL"]
[mcp_servers.refused]
bearer_token_env_var = "NEVER"
`), 0o600))
	require.NoError(t, os.WriteFile(claude, []byte(`{"mcpServers": {"team": {"command": "team", "args": ["${workspaceFolder}", "$${LITERAL}", "${env:FIGMA_TEAM}"],
		"env": {"FIGMA_TOKEN": "figd_0123456789abcdefghijABCDEFGHIJ"}}}}`), 0o600))
	source := func(id, path string) Source {
		host, ok := ByID(id)
		require.True(t, ok)
		return Source{Host: host, Path: path}
	}
	m := newMachine(t, "linux")
	target, err := configfile.Open(filepath.Join(dir, "mcp.json"))
	require.NoError(t, err)
	p, err := NewPlan(target, []Source{source("codex", codex), source("cursor", claude)}, m.env, Keep, func(name string) (string, bool) { return "", name == "KNOWN" })
	require.NoError(t, err)
	names := map[string][]string{}
	for _, v := range p.Variables {
		names[v.Name] = v.For
		require.False(t, v.Set)
	}
	require.Equal(t, map[string][]string{
		"FIGMA_TOKEN":      {"a reference of figma (Codex " + codex + ":1)"},
		"FIGMA_TEAM":       {"a reference of figma (Codex " + codex + ":1)", "a reference of team (Cursor " + claude + ":1)"},
		"TEAM_FIGMA_TOKEN": {"env.FIGMA_TOKEN of team (Cursor " + claude + ":1)"},
	}, names, "one name never stands for two values")
}

// What belongs into a variable is said: the whole value, or the part between two texts.
func TestPlan_parts_of_values(t *testing.T) {
	_, p := planOf(t, "cursor", `{"mcpServers": {
		"web": {"url": "https://u:pa55word1@w.example/mcp?key=q0123456789", "headers": {"Authorization": "Bearer tok0123456789abcdef"}},
		"arg": {"command": "x", "args": ["-H", "Authorization: Bearer tok9876543210abcdef"]}
	}}`)
	for name, end := range map[string]string{"WEB_URL_SECRET": `, the part after "https://"`, "WEB_TOKEN": `, the part after "Bearer "`, "ARG_H": `, the part after "Authorization: "`} {
		v := p.vars.find(name)
		require.NotNil(t, v, name)
		require.Contains(t, v.For[0]+"\n", end+"\n")
	}
}

// A relative path of the user's file begins elsewhere after the move, which is told.
func TestPlan_relative_paths_of_the_user(t *testing.T) {
	_, p := planOf(t, "cursor", `{"mcpServers": {
		"a": {"command": "node", "args": ["${workspaceFolder}/srv.js"], "cwd": "./d", "envFile": "~/x.env"},
		"b": {"command": "node", "cwd": "/abs"}
	}}`)
	require.Contains(t, item(t, p, "Cursor", "a").Notes[0], "${workspaceFolder}, cwd now begins at the directory of ")
	for _, note := range item(t, p, "Cursor", "b").Notes {
		require.NotContains(t, note, "begins")
	}
}

// Claude Code knows a project by its real path, and the shell by that of a link.
func TestPlan_project_behind_a_link(t *testing.T) {
	home, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	project, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	if err := os.Symlink(project, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	text := `{"projects": {"/elsewhere": {}, "` + filepath.ToSlash(project) + `": {"mcpServers": {"mine": {"command": "x"}}}}}`
	require.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"), []byte(text), 0o600))
	m := &machine{env: Environment{OS: "linux", Home: home, Dir: link}}
	h, _ := ByID("claude-code")
	_, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep, h.Find(m.env)...)
	require.Equal(t, ActionAdd, item(t, p, "Claude Code", "mine").Action)
}
