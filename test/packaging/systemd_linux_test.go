package packaging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// patience bounds each wait for systemd.
const patience = time.Minute

// machine is a systemd of its own, as process 1 of its own namespaces.
type machine struct {
	t   *testing.T
	pid string // of systemd
	dir string // its files are below this machine's; tree is copied over them
}

// bootMachine starts a machine with the service installed by its package, or as that installs
// it, and one server in its configuration.
func bootMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a systemd")
	}
	for _, tool := range []string{"/lib/systemd/systemd", "systemctl", "unshare", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	m := &machine{t: t, dir: t.TempDir()}
	require.NoError(t, os.Chmod(m.dir, 0o755))
	if _, err := exec.LookPath("dpkg"); err == nil && os.Getenv(goreleaserVariable) != "" {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, "mcpvisor.deb"), readFile(t, only(t, dist(t), "*.deb")), 0o644))
	} else {
		m.install("/usr/bin/mcpvisor", readFile(t, builtProgram(t)), 0o755)
		for _, c := range readRelease(t).Nfpms[0].Contents {
			if c.Packager != "rpm" && !strings.HasPrefix(c.Src, ".release/") {
				m.install(c.Dst, []byte(read(t, filepath.FromSlash(c.Src))), 0o644)
			}
		}
	}
	self, err := os.Executable()
	require.NoError(t, err)
	m.install("/usr/bin/echo-server", readFile(t, self), 0o755)
	m.install("/etc/mcpvisor/mcp.json", configOf(t, "one"), 0o644)
	m.install("/etc/systemd/system/mcpvisor.service.d/fast.conf", []byte("[Service]\nWatchdogSec=3s\nRestartSec=100ms\nTimeoutAbortSec=1s\n"), 0o644)
	m.boot()
	return m
}

// configOf returns a configuration with these servers.
func configOf(t *testing.T, names ...string) []byte {
	t.Helper()
	spec := mcptest.Stdio(mcptest.Script{})
	servers := map[string]any{}
	for _, name := range names {
		servers[name] = map[string]any{"command": "/usr/bin/echo-server", "env": spec.Env}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	require.NoError(t, err)
	return text
}

// install adds a file before the machine is booted.
func (m *machine) install(path string, text []byte, mode os.FileMode) {
	m.t.Helper()
	target := filepath.Join(m.dir, "tree", filepath.FromSlash(path))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(target), 0o755))
	require.NoError(m.t, os.WriteFile(target, text, mode))
}

func (m *machine) boot() {
	m.t.Helper()
	var log bytes.Buffer
	boot := exec.Command(filepath.Join("testdata", "systemd", "boot"), m.dir)
	boot.Stdout, boot.Stderr = &log, &log
	require.NoError(m.t, boot.Start())
	ended := make(chan error, 1)
	go func() { ended <- boot.Wait() }()
	m.t.Cleanup(func() {
		if pid, err := os.ReadFile(filepath.Join(m.dir, "unshare.pid")); err == nil {
			if id, err := strconv.Atoi(strings.TrimSpace(string(pid))); err == nil {
				if p, err := os.FindProcess(id); err == nil {
					_ = p.Kill() // and so everything in its namespaces
				}
			}
		}
		<-ended
	})
	m.eventually("systemd runs", func() bool {
		select {
		case err := <-ended:
			ended <- err
			if reason, err := os.ReadFile(filepath.Join(m.dir, "failed")); err == nil {
				m.t.Skipf("no systemd can be started here: %s", bytes.TrimSpace(reason))
			}
			m.t.Fatalf("the boot has ended (%v): %s", err, log.String())
		default:
		}
		parent, err := os.ReadFile(filepath.Join(m.dir, "unshare.pid"))
		if err != nil {
			return false
		}
		parentID := strings.TrimSpace(string(parent))
		children, err := os.ReadFile("/proc/" + parentID + "/task/" + parentID + "/children")
		if err != nil || len(strings.Fields(string(children))) == 0 {
			return false
		}
		m.pid = strings.Fields(string(children))[0]
		out, _ := m.run("systemctl", "is-system-running")
		return strings.Contains(out, "running") || strings.Contains(out, "degraded")
	})
	m.t.Cleanup(func() {
		if m.t.Failed() {
			out, _ := m.run("systemctl", "show", "mcpvisor", "--property=ActiveState,SubState,Result,MainPID,NRestarts")
			m.t.Log(out)
		}
	})
}

// run runs a command on the machine as root, and returns what it prints and its exit code.
func (m *machine) run(args ...string) (out string, code int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", m.pid, "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--"}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp"}
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(text), exit.ExitCode()
	}
	require.NoError(m.t, err)
	return string(text), 0
}

// mcpvisor runs the program with the configuration of the service, as root or as a user who
// is in the group or not.
func (m *machine) mcpvisor(as string, args ...string) (out string, code int) {
	m.t.Helper()
	command := append([]string{"mcpvisor", "--config", "/etc/mcpvisor/mcp.json"}, args...)
	switch as {
	case "member":
		command = append([]string{"setpriv", "--reuid=4242", "--regid=4242", "--groups=mcpvisor-users"}, command...)
	case "stranger":
		command = append([]string{"setpriv", "--reuid=4243", "--regid=4243", "--clear-groups"}, command...)
	}
	return m.run(command...)
}

// property is one that systemctl shows of the service.
func (m *machine) property(name string) string {
	m.t.Helper()
	out, _ := m.run("systemctl", "show", "--value", "--property="+name, "mcpvisor")
	return strings.TrimSpace(out)
}

func (m *machine) eventually(what string, done func() bool) {
	m.t.Helper()
	require.Eventually(m.t, done, patience, 50*time.Millisecond, what)
}

// The unit runs under a real systemd: who may use its servers, reload, crash, hang and stop.
func TestService(t *testing.T) {
	m := bootMachine(t)
	begin := func(what string) {
		m.eventually(what, func() bool {
			out, code := m.mcpvisor("root", "status")
			return m.property("ActiveState") == "active" && code == 0 && strings.Contains(out, "one") && strings.Contains(out, "ready")
		})
	}
	out, code := m.run("systemctl", "start", "mcpvisor")
	require.Zero(t, code, out)
	begin("the service is ready")
	require.Equal(t, "yes", m.property("DynamicUser"))

	for _, as := range []string{"root", "member"} {
		out, code = m.mcpvisor(as, "call", "one/echo", "text=hello")
		require.Zero(t, code, "%s: %s", as, out)
		require.Contains(t, out, "hello", as)
		out, _ = m.mcpvisor(as, "status", "--json")
		require.Contains(t, out, `"one"`, as)
	}
	out, code = m.mcpvisor("stranger", "call", "one/echo", "text=hello")
	require.NotZero(t, code)
	require.Contains(t, out, "usermod -aG mcpvisor-users")
	require.NotContains(t, out, "hello")

	main := m.property("MainPID")
	edit := func(text []byte) {
		path := filepath.Join(m.dir, "edited.json")
		require.NoError(t, os.WriteFile(path, text, 0o644))
		out, code := m.run("cp", "/mnt/stage/edited.json", "/etc/mcpvisor/mcp.json")
		require.Zero(t, code, out)
	}
	edit(configOf(t, "one", "two"))
	out, code = m.run("systemctl", "reload", "mcpvisor")
	require.Zero(t, code, out)
	m.eventually("the added server is ready", func() bool {
		out, code := m.mcpvisor("root", "call", "two/echo", "text=second")
		return code == 0 && strings.Contains(out, "second")
	})
	require.Equal(t, main, m.property("MainPID"), "a reload keeps the process")

	out, code = m.run("kill", "-KILL", main)
	require.Zero(t, code, out)
	m.eventually("systemd starts it again", func() bool { return m.property("NRestarts") == "1" && m.property("MainPID") != main })
	begin("the second process is ready")

	out, code = m.run("kill", "-STOP", m.property("MainPID"))
	require.Zero(t, code, out)
	m.eventually("the watchdog ends what does not answer", func() bool { return m.property("NRestarts") == "2" })
	begin("the third process is ready")

	out, code = m.run("kill", "-QUIT", m.property("MainPID"))
	require.Zero(t, code, out)
	m.eventually("a crash of Go, which exits with 2 by default, is restarted", func() bool { return m.property("NRestarts") == "3" })
	begin("the fourth process is ready")

	out, code = m.run("systemctl", "stop", "mcpvisor")
	require.Zero(t, code, out)
	require.Equal(t, "inactive", m.property("ActiveState"))
	require.Equal(t, "success", m.property("Result"))
	out, _ = m.run("sh", "-c", "cat /proc/[0-9]*/comm")
	require.NotContains(t, out, "echo-server", "a server is left")
	require.NotContains(t, out, "mcpvisor")
	_, err := os.Stat("/usr/bin/echo-server")
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing is written to this machine")
}
