package doctor

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// recordedFailure is a start that failed in reality. Its advice was judged by reading what the
// server wrote.
type recordedFailure struct {
	Name string `json:"name"`
	// Command started the server; Version is that of its package.
	Command []string `json:"command,omitempty"`
	Version string   `json:"version,omitempty"`
	URL     string   `json:"url,omitempty"`

	Kind    supervisor.CauseKind `json:"kind"`
	Message string               `json:"message"`
	Stderr  []string             `json:"stderr,omitempty"`

	Advice string `json:"advice,omitempty"`
}

func recordedFailures(t *testing.T) (all []recordedFailure) {
	t.Helper()
	text, err := os.ReadFile("testdata/failures.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	return all
}

func (r *recordedFailure) advice(t *testing.T) string {
	t.Helper()
	spec := mcpvisor.ServerSpec{Name: r.Name}
	status := mcpvisor.ServerStatus{Name: r.Name, State: supervisor.StateEvicted, LastCause: &supervisor.Cause{Kind: r.Kind, Message: r.Message, Stderr: r.Stderr}}
	if r.URL != "" {
		spec.HTTP, status.Transport = &mcpvisor.HTTP{URL: r.URL}, "http"
	} else {
		spec.Stdio, status.Transport = &mcpvisor.Stdio{Command: r.Command[0], Args: r.Command[1:]}, "stdio"
	}
	return diagnose(&servers.Opener{Invocation: cli.Invocation{Context: t.Context()}}, status, spec, r.malformed()).Advice
}

// malformed returns how many messages were none, as far as the record tells.
func (r *recordedFailure) malformed() uint64 {
	return uint64(strings.Count(r.Message, "what is not JSON-RPC"))
}

// Every failure gets the advice that a reader of its messages would give. testdata/failures.json
// has what real servers from npm wrote without settings, and what runtimes, package runners,
// docker and endpoints answer to common mistakes.
func TestDiagnose_recorded_failures(t *testing.T) {
	all := recordedFailures(t)
	require.Greater(t, len(all), 100)
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) { require.Equal(t, r.Advice, r.advice(t)) })
	}
}

// A rule that no recorded failure needs is a guess. The exceptions are about machines that are
// set up in another way than that of the recording.
func TestRules_have_a_recorded_failure(t *testing.T) {
	used := map[string]bool{}
	for _, name := range notRecorded {
		used[name] = true
	}
	for _, r := range recordedFailures(t) {
		if r.URL == "" {
			f := failure{kind: string(r.Kind), message: r.Message, stderr: r.Stderr, command: r.Command[0], args: r.Command[1:], has: func(string) bool { return false }}
			_, name := f.prescribe()
			used[name] = true
		}
	}
	for _, r := range rules {
		require.True(t, used[r.name], r.name)
	}
}

var notRecorded = []string{"npm-network", "npm-login", "uv-package", "docker-permission", "docker-image", "install-node", "install-docker", "install-python",
	"json", "permission", "host-somewhere", "credentials", "fetch"}

// What those rules are about, as the programs write it.
func TestPrescribe_words_of_other_machines(t *testing.T) {
	for line, want := range map[string]string{
		"npm error code EAI_AGAIN": "npm ping",
		"npm error code E401":      "npm login",
		"╰─▶ Because mcp-server-fecth was not found in the package registry and you require mcp-server-fecth, we can conclude": `correct "mcp-server-fecth"`,
		"docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock":         `group "docker"`,
		"docker: Error response from daemon: pull access denied for mcp/fecth, repository does not exist":                      "docker pull mcp/fecth",
		`command "npx" not found; install it, or give its full path`:                                                           "install Node.js, which brings npx",
		`command "docker" not found; install it, or give its full path`:                                                        "install docker",
		`command "python" not found; install it, or give its full path`:                                                        "install Python",
		"SyntaxError: Unexpected token } in JSON at position 5":                                                                "not valid JSON",
		"Error: EACCES: permission denied, open '/srv/db'":                                                                     "ls -ld /srv/db",
		"PermissionError: [Errno 13] Permission denied: '/srv/db'":                                                             "ls -ld /srv/db",
		"socket.gaierror: [Errno -2] Name or service not known":                                                                "host name cannot be resolved",
		"Error: Invalid API key":  `renew them in "env"`,
		"TypeError: fetch failed": "check the network",
	} {
		f := failure{kind: "exit", message: line, stderr: []string{line}, command: "npx", args: []string{"-y", "p"}, has: func(string) bool { return false }}
		advice, _ := f.prescribe()
		require.Contains(t, advice, want, line)
	}
}

// What only mentions a variable, or is about colours, is no reason to set one.
func TestPrescribe_variables(t *testing.T) {
	for _, c := range []struct {
		stderr, env, want string
	}{
		{"(node:7) Warning: The 'NO_COLOR' env is ignored due to the 'FORCE_COLOR' env being set.\nError: SERVICE_TOKEN is required", "", `add "env": {"SERVICE_TOKEN": "${SERVICE_TOKEN}"}, and set SERVICE_TOKEN before mcpvisor starts`},
		{"Warning: The 'NO_COLOR' env is ignored due to the 'FORCE_COLOR' env being set.\nboom", "", "run the command by hand"},
		{"WARN: CACHE_DIR is not set, using /tmp\nError: connect ECONNREFUSED 10.0.0.1:5432", "", "nothing listens at 10.0.0.1:5432"},
		{"WARN: CACHE_DIR is not set, using /tmp\nTypeError: x is not a function", "", "run the command by hand"},
		{"code: ERR_MODULE_NOT_FOUND is required", "", "lacks a setting"},
		{"SERVICE_TOKEN is required", "SERVICE_TOKEN", "lacks a setting"},
		{"set A_KEY or B_KEY", "", `{"A_KEY": "${A_KEY}"}`},
		{"set A_KEY and B_KEY", "", `{"A_KEY": "${A_KEY}", "B_KEY": "${B_KEY}"}`},
		{"npm warn config A_KEY is not set", "", "it wrote nothing"},
		{"using A_KEY of the shell", "", "run the command by hand"},
	} {
		f := failure{kind: "exit", message: "server process ended with exit status 1", stderr: strings.Split(c.stderr, "\n"), command: "node", has: func(name string) bool { return name == c.env }}
		advice, _ := f.prescribe()
		require.Contains(t, advice, c.want, c.stderr)
	}
}

// Nothing that a server writes makes the advice long, or slow.
func TestPrescribe_hostile_text(t *testing.T) {
	for _, text := range []string{strings.Repeat("A_", 1<<20), strings.Repeat("usage: ", 1<<18), strings.Repeat("\x1b[31m'", 1<<18), strings.Repeat("required ECONNREFUSED [", 1<<16),
		"usage: \x1b[2J\u202e" + strings.Repeat("x", 1<<20), strings.Repeat("set A_"+strings.Repeat("B", 300)+" ", 4000)} {
		f := failure{kind: "exit", message: text, stderr: []string{text, text}, command: "node", has: func(string) bool { return false }}
		advice, _ := f.prescribe()
		require.NotEmpty(t, advice)
		require.Less(t, len(advice), 4000)
		require.NotContains(t, advice, "\x1b")
		require.NotContains(t, advice, "\u202e")
	}
}
