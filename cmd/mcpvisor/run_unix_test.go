//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestRun_reloads_at_SIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("before"), 0o600))
	server := entry(mcptest.Script{})
	env, ok := server["env"].(map[string]string)
	require.True(t, ok)
	env["SECRET"] = "${file:" + file + "}"
	b := startReady(t, map[string]any{"one": server}, "run")
	require.NoError(t, os.WriteFile(file, []byte("after"), 0o600))
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	b.await("  reload: replace one")
	b.await(" ready: ")
	b.stop()
	require.Zero(t, b.code)
	require.Empty(t, b.errs.String())
}

// A run does not outlive its terminal, although SIGHUP reloads it.
func TestRun_ends_with_its_terminal(t *testing.T) {
	dir := shortDir(t)
	program := filepath.Join(t.TempDir(), "mcpvisor") // TestMain runs main under this name
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	state, server := recorded(t)
	path := serversFile(t, map[string]any{"one": server})
	term := newTerminal(t, dir, "GORACE=atexit_sleep_ms=0 XDG_RUNTIME_DIR="+dir+" exec "+program+" --config "+path+" run")
	term.run("new-session", "-d", "-s", "other", "-n", "other", "cat") // so that tmux does not end; "t" must not be a prefix of the window's name
	term.await(" ready: ")
	pids := mcptest.PIDs(state)
	require.Len(t, pids, 1)
	term.run("kill-session", "-t", "t")
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pids[0], 0), syscall.ESRCH) }, time.Minute, 10*time.Millisecond)
}

// A pipe in the place of the configuration is a problem like a broken file: it is said once, the servers stay,
// a later file is read, and an interrupt ends the program.
func TestRun_configuration_becomes_a_pipe(t *testing.T) {
	b := startReady(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	becomesPipe := func() {
		require.NoError(t, syscall.Mkfifo(b.config+".pipe", 0o600))
		require.NoError(t, os.Rename(b.config+".pipe", b.config))
		client, _, err := attach.Find(t.Context(), b.config)
		require.NoError(t, err)
		defer client.Close()
		require.Eventually(t, func() bool {
			info, err := client.Info(t.Context())
			require.NoError(t, err)
			return strings.Contains(info.Problem, "it is not a regular file") && len(info.Servers) > 0
		}, time.Minute, 10*time.Millisecond)
	}
	becomesPipe()
	b.write(map[string]any{"one": entry(mcptest.Script{}), "two": entry(mcptest.Script{})})
	b.await("  two ")
	becomesPipe()
	b.stop()
	require.Zero(t, b.code, b.errs.String())
	require.Contains(t, b.errs.String(), b.config+": it is not a regular file; the servers stay as they are")
}

// podAddress returns an address of this machine that is not loopback, as a kubelet uses that of
// the pod; loopback without one.
func podAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, one := range all {
		if network, ok := one.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	return "127.0.0.1"
}

// probe asks as a kubelet does: by the address of the pod, and without the token.
func probe(t *testing.T, address, path string) (status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	r.Close = true
	r.Header.Set("User-Agent", "kube-probe/1.33")
	r.Header.Set("Accept", "*/*")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// The probes of the example for Kubernetes become 200 when the server of the example is ready.
func TestRun_answers_the_probes_of_the_example_for_Kubernetes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "sidecar.yaml"))
	require.NoError(t, err)
	var args []string
	require.NoError(t, json.Unmarshal(regexp.MustCompile(`(?m)^ +args: (\[.*\])$`).FindSubmatch(text)[1], &args))
	probes := map[string]string{}
	for _, found := range regexp.MustCompile(`(\w+)Probe:\n +httpGet: \{path: "?([^,"]+)"?, `).FindAllStringSubmatch(string(text), -1) {
		probes[found[1]] = found[2]
	}
	require.Len(t, probes, 3)
	replace := func(option, value string) {
		i := slices.Index(args, option)
		require.Positive(t, i)
		args[i+1] = value
	}
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("change-me\n"), 0o600))
	replace("--token-file", token)
	replace("--http", "0.0.0.0:0")

	release := filepath.Join(t.TempDir(), "release")
	require.NoError(t, syscall.Mkfifo(release, 0o600))
	held := entry(mcptest.Script{}) // until the test writes into release
	held["args"] = []any{"-c", `cat "$0" >&2 && exec "$1"`, release, held["command"]}
	held["command"] = "sh"
	b := startRun(t, map[string]any{"github": held, "other": goodAndBad()["bad"]}, args...)
	_, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(pageOf(b), "http://"), "/"), ":")
	address := net.JoinHostPort(podAddress(t), port)
	require.Equal(t, http.StatusOK, probe(t, address, probes["startup"]))
	require.Equal(t, http.StatusOK, probe(t, address, probes["liveness"]))
	require.Equal(t, http.StatusServiceUnavailable, probe(t, address, probes["readiness"]))
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	b.await("  github  ready: ")
	require.Equal(t, http.StatusOK, probe(t, address, probes["readiness"]))
	require.Equal(t, http.StatusOK, probe(t, address, "/readyz?server=github"), "it is required")
	require.Equal(t, http.StatusUnauthorized, probe(t, address, "/readyz?server=other"), "names are told to no client")
	b.stop()
	require.Empty(t, b.errs.String())
}

// A required server that the file does not have can never be ready.
func TestRun_warns_of_a_required_server_that_is_not_configured(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, "run", "--http", "127.0.0.1:0", "--require", "one,two")
	page := pageOf(b)
	b.await(" ready: ")
	require.Equal(t, http.StatusServiceUnavailable, probe(t, strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/"), "/readyz"))
	b.stop()
	require.Regexp(t, `^--require two: config .*c\.json has no server of that name, so /readyz answers 503 until it has one\n$`, b.errs.String())
}
