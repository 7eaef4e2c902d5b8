package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func env(pairs map[string]string) Option {
	return WithLookup(func(name string) (string, bool) { v, ok := pairs[name]; return v, ok })
}

func TestLoad_Claude_Desktop(t *testing.T) {
	f, err := Load("testdata/claude_desktop.json") // a byte order mark and carriage returns
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Len(t, f.Servers, 1)
	s := f.Servers[0]
	require.Equal(t, 3, s.Line)
	require.Equal(t, "filesystem", s.Spec.Name)
	require.Equal(t, &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/tmp"},
		Env: map[string]string{"PORT": "8080", "DEBUG": "true"}}, s.Spec.Stdio)
	require.Equal(t, DefaultRetry, s.Spec.Policy)
	require.True(t, s.Spec.StartSupervised)
}

func TestLoad_project_file(t *testing.T) {
	f := mustLoadFiles(t, []string{"testdata/mcp.json"}, env(map[string]string{"TOKEN": "s3cret"}))
	require.Empty(t, f.Problems)
	require.Len(t, f.Servers, 3)
	require.Equal(t, "Bearer s3cret", f.Servers[0].Spec.HTTP.Headers["Authorization"])

	local := f.Servers[1].Spec
	workspace, err := filepath.Abs("testdata")
	require.NoError(t, err)
	require.Equal(t, workspace+"/bin/server", local.Stdio.Command)
	require.Equal(t, []string{"--level", "info", "$HOME", "${LITERAL}"}, local.Stdio.Args)
	require.Equal(t, "localhost", local.Stdio.Env["HOST"])
	require.True(t, local.Stdio.InheritEnv)
	require.Equal(t, supervisor.Policy{MaxAttempts: 3, Base: 100 * time.Millisecond, Max: time.Second, Jitter: 0.2,
		StableAfter: 5 * time.Second, ParkEvery: time.Minute,
		Intensity: supervisor.Intensity{Restarts: 5, Window: 30 * time.Second}}, local.Policy)
	require.Equal(t, mcpvisor.Timeouts{Start: 10 * time.Second, Call: 2 * time.Minute, CallTotal: 5 * time.Minute}, local.Timeouts)
	require.Equal(t, 8, local.Limits.MaxInFlight)
	require.Equal(t, mcpvisor.Probe{Interval: 5 * time.Second, Failures: 2}, local.Probe)
	require.True(t, local.Standby)
	require.Equal(t, mcpvisor.EraLegacy, local.Era)

	require.True(t, f.Servers[2].Disabled)
	require.Len(t, f.Specs(), 2)
}

func TestLoad_VS_Code(t *testing.T) {
	asked := ""
	f := mustLoadFiles(t, []string{"testdata/vscode.json"}, WithInput(func(i Input) (string, error) { asked = i.ID; return "k", nil }))
	require.Empty(t, f.Problems)
	require.Equal(t, "key", asked)
	require.Equal(t, "k", f.Servers[0].Spec.Stdio.Env["API_KEY"])

	f = mustLoadFiles(t, []string{"testdata/vscode.json"})
	require.Empty(t, f.Servers)
	require.Contains(t, f.Problems[0].String(), `vscode.json:10:27: server "search": in "env.API_KEY": ${input:key} needs an answer of the user; set MCPVISOR_INPUT_KEY`)

	f = mustLoadFiles(t, []string{"testdata/settings.json"})
	require.Equal(t, "a", f.Servers[0].Spec.Name)
}

func TestLoad_with_broken_entries(t *testing.T) {
	f := mustLoadFiles(t, []string{"testdata/broken.json"}, env(nil))
	var good []string
	for _, s := range f.Servers {
		good = append(good, s.Spec.Name)
	}
	require.Equal(t, []string{"good", "un-set", "typo", "foreign"}, good)
	require.Equal(t, "good", f.Servers[0].Spec.Stdio.Command)
	require.Equal(t, 2*time.Minute, f.Servers[3].Spec.Timeouts.Call)

	var got []string
	for _, p := range f.Problems {
		got = append(got, p.String())
	}
	const at = "config testdata/broken.json:"
	for i, want := range []string{
		at + `4:5: warning: server "un set": the name has characters that a server name cannot have; the server is called "un-set"; rename the entry`,
		at + `5:43: server "missing": in "args[0]": environment variable NOT_SET is not set`,
		at + `6:22: server "old": type "wss" is unknown`,
		at + `7:13: server "both" has both "command" and "url"`,
		at + `8:16: server "neither" has neither "command" nor "url"`,
		at + `9:15: warning: server "typo": unknown key "comand" is ignored; did you mean "command"?`,
		at + `10:27: server "wrong": "command" must be a string`,
		at + `11:59: server "retry": "retry.max_attempts" must be a whole number`,
		at + `12:54: server "clock": "timeouts.call" must be a duration`,
		at + `13:5: server "good" is defined twice (first on line 3); rename or remove one`,
		at + `14:13: server "list" is not an object; write`,
		at + `15:45: warning: server "foreign": "timeout" is read as 2m0s`,
		at + `16:12: server "url": http transport: URL must begin with`,
		at + `17:40: server "shut": in "args[0]": a ${ has no }`,
	} {
		require.Greater(t, len(got), i)
		require.Contains(t, got[i], want)
	}
	require.Len(t, got, 14)
}

func TestParse_unusable_file(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"mcpServers\": {\n    oops\n": "config x.json:3:5: this is not valid JSON",
		`[]`:                                 "x.json:1:1: the file is not a JSON object",
		`{"mcpservers": {}}`:                 `x.json:1:2: the file has neither "mcpServers" nor "servers"`,
		`{"mcpServers": []}`:                 `x.json:1:16: "mcpServers" is not an object`,
	} {
		_, err := Parse([]byte(text), "x.json")
		require.ErrorContains(t, err, want)
	}
	_, err := Load("testdata/none.json")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "config testdata/none.json does not exist; create it, or name another file")
}

func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("# secrets\nexport A=1\nB=\"two words\"\nnonsense\nC=3\n"), 0o600))
	text := `{"servers": {"s": {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"C": "over"}},
	  "t": {"command": "x", "envFile": "none"}}}`
	f := mustParse(t, []byte(text), filepath.Join(dir, "mcp.json"))
	require.Equal(t, map[string]string{"A": "1", "B": "two words", "C": "over"}, f.Servers[0].Spec.Stdio.Env)
	require.Len(t, f.Problems, 2)
	require.Equal(t, SeverityWarning, f.Problems[0].Severity)
	require.Contains(t, f.Problems[0].Message, "line 4")
	require.Contains(t, f.Problems[1].Message, `envFile "none" cannot be read`)
}

// A line that is not NAME=value is named in a warning, and the other lines count.
// A file that cannot be read to its end costs the entry.
func TestEnvFile_lines(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) *File {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.env"), []byte(text), 0o600))
		f := mustParse(t, []byte(`{"servers": {"s": {"command": "x", "envFile": "a.env"}}}`), filepath.Join(dir, "mcp.json"))
		return f
	}
	f := read("A='one'\nB=\"half\nC=\"\nD=it's'\nE F=6\n=7\nG = 8 \nH=\n")
	require.Equal(t, map[string]string{"A": "one", "B": `"half`, "C": `"`, "D": "it's'", "G": "8", "H": ""}, f.Servers[0].Spec.Stdio.Env)
	require.Len(t, f.Problems, 2)
	require.Contains(t, f.Problems[0].Message, "line 5 is ignored, because it is not NAME=value")
	require.Contains(t, f.Problems[1].Message, "line 6 is ignored")

	f = read("A=1\nB=" + strings.Repeat("secret", 20_000))
	require.Empty(t, f.Servers)
	require.Contains(t, f.Problems[0].Message, "cannot be read to its end")
	require.NotContains(t, f.Problems[0].Message, "secret")
}

func TestRetry(t *testing.T) {
	for text, want := range map[string]supervisor.Policy{
		`false`:  supervisor.NoRetry(),
		`"none"`: supervisor.NoRetry(),
		`true`:   DefaultRetry,
		`{"max_attempts": "unlimited", "base": "1s"}`: supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithMaxDelay(DefaultRetry.Max)),
		`{"max_attempts": 2}`:                         supervisor.Retry(2, DefaultRetry.Base, supervisor.WithMaxDelay(DefaultRetry.Max)),
	} {
		f := mustParse(t, []byte(`{"servers": {"s": {"command": "x", "retry": `+text+`}}}`), "x.json")
		require.Empty(t, f.Problems, text)
		require.Equal(t, want, f.Servers[0].Spec.Policy, text)
	}
}

func TestLoad_input_not_answered(t *testing.T) {
	f := mustLoadFiles(t, []string{"testdata/vscode.json"}, WithInput(func(Input) (string, error) { return "", errors.New("no terminal") }))
	require.Contains(t, f.Problems[0].Message, "no terminal")
}
