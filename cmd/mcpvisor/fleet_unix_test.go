//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// etcdProgram returns the path of etcd. It skips the test if etcd is not installed.
func etcdProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("MCPVISOR_ETCD"); path != "" {
		return path
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path
	}
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "etcd", "usr", "bin", "etcd"))
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skip("etcd is not installed; .ci/etcd fetches it from Debian, or set MCPVISOR_ETCD")
	}
	return path
}

// freeAddresses returns addresses of this machine on which no process listens.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		all = append(all, l.Addr().String())
	}
	return all
}

// blocks returns the code blocks of a section of a page.
func blocks(t *testing.T, page, section string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found)
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, found := range regexp.MustCompile("(?s)\n```[a-z]*\n(.*?\n)```\n").FindAllStringSubmatch(rest, -1) {
		all = append(all, found[1])
	}
	return all
}

// shellSession is a bash that runs commands one after the other.
type shellSession struct {
	t   *testing.T
	in  io.WriteCloser
	out *syncBuffer
	n   int
}

// run runs lines, and returns what they print.
func (s *shellSession) run(lines string) string {
	s.t.Helper()
	s.n++
	mark := fmt.Sprintf("end-of-%d", s.n)
	from := len(s.out.String())
	_, err := io.WriteString(s.in, lines+"\necho "+mark+" $?\n")
	require.NoError(s.t, err)
	var text string
	require.Eventually(s.t, func() bool {
		text = s.out.String()[from:]
		return strings.Contains(text, mark+" ") && strings.HasSuffix(text, "\n")
	}, time.Minute, 5*time.Millisecond, "%s", lines)
	text, code, _ := strings.Cut(text, mark+" ")
	code, _, _ = strings.Cut(code, "\n") // bash may say then that a job has ended
	require.Equal(s.t, "0", code, "%s\n%s", lines, text)
	return text
}

// The commands of the page start a fleet of three nodes, and what the page says of it holds.
func TestFleet_three_nodes_of_the_page(t *testing.T) {
	etcd, program := etcdProgram(t), buildProgram(t)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	code := blocks(t, "../../docs/fleet.md", "Three nodes on one machine")
	require.Len(t, code, 3)
	dir, bin := shortDir(t), t.TempDir()
	require.NoError(t, os.Symlink(program, filepath.Join(bin, "mcpvisor")))
	require.NoError(t, os.Symlink(etcd, filepath.Join(bin, "etcd")))

	// The servers are those of a fixture in place of npx, and the ports are free ones.
	var file struct {
		MCPServers map[string]map[string]any `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal([]byte(code[0]), &file))
	for name, e := range file.MCPServers {
		fixture := fleetEntry(mcptest.Script{Name: name})
		if e["exclusive"] == true {
			fixture["exclusive"] = true
		}
		file.MCPServers[name] = fixture
	}
	data, err := json.Marshal(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet.json"), data, 0o600))
	free := freeAddresses(t, 7)
	client, peer, page := free[0], free[1], free[2]
	replace := strings.NewReplacer("127.0.0.1:2379", client, "127.0.0.1:7777", page, "127.0.0.1:7790", free[3], "127.0.0.1:7791", free[4], "127.0.0.1:7792", free[5], "--node c", "--node c --http "+free[6],
		"etcd --data-dir etcd-data", "etcd --data-dir etcd-data --log-level error --listen-client-urls http://"+client+" --advertise-client-urls http://"+client+" --listen-peer-urls http://"+peer+" --initial-advertise-peer-urls http://"+peer+" --initial-cluster default=http://"+peer,
		"everything/echo message=hello", "everything/echo text=hello")

	bash := exec.Command("bash")
	bash.Dir = dir
	bash.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+dir, "ETCD_UNSUPPORTED_ARCH=arm64")
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := new(syncBuffer)
	bash.Stdout, bash.Stderr = out, out
	in, err := bash.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, bash.Start())
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"etcd", "a", "b", "c"} {
				log, _ := os.ReadFile(filepath.Join(dir, name+".log"))
				t.Logf("%s.log:\n%s", name, log)
			}
			text := out.String()
			t.Logf("bash:\n%s", text[max(0, len(text)-4000):])
		}
		_ = in.Close()
		_ = syscall.Kill(-bash.Process.Pid, syscall.SIGTERM) // nodes end their servers
		_ = bash.Wait()
		require.Eventually(t, func() bool { return syscall.Kill(-bash.Process.Pid, 0) != nil }, 30*time.Second, 20*time.Millisecond, "all that was started ends")
	})
	s := &shellSession{t: t, in: in, out: out}
	var last string
	for line := range strings.Lines(replace.Replace(code[1])) {
		last = s.run(strings.TrimSpace(line))
	}
	where := func(text string) map[string]string {
		all := map[string]string{}
		for _, found := range regexp.MustCompile(`(?m)^(memory|everything|thinking) +(?:shared|exclusive) +\d+ +(\S+)`).FindAllStringSubmatch(text, -1) {
			all[found[1]] = found[2]
		}
		return all
	}
	require.Len(t, where(last), 3, last)
	require.Regexp(t, `(?m)^a +in the fleet `, last)
	require.Regexp(t, `(?m)^memory +exclusive `, last)

	// The probes of a node ask for no server, and the API and the metrics know the fleet.
	require.Equal(t, http.StatusOK, probe(t, page, "/healthz"))
	require.Equal(t, http.StatusOK, probe(t, page, "/readyz"))
	require.Eventually(t, func() bool { // it is read a few times a second
		metrics := "\n" + fetch(t, "http://"+page+"/metrics")
		return strings.Contains(metrics, "\nmcpvisor_fleet_nodes 3\n") && strings.Contains(metrics, "\nmcpvisor_fleet_servers{state=\"placed\"} 3\n") && strings.Contains(metrics, "\nmcpvisor_fleet_member 1\n")
	}, 20*time.Second, 50*time.Millisecond)
	require.Contains(t, fetch(t, "http://"+page+"/api/nodes"), `"node":"a","generation":1`)

	lines := strings.Split(strings.TrimSpace(replace.Replace(code[2])), "\n")
	require.Len(t, lines, 5)
	s.run(lines[0])
	require.Equal(t, "b", where(s.run("mcpvisor fleet status"))["memory"], "it was moved")
	require.Contains(t, s.run(lines[1]), "node b has no servers")
	require.Contains(t, s.run(lines[2]), "hello")
	s.run(lines[3])
	require.Eventually(t, func() bool {
		at := where(s.run(lines[4]))
		return at["memory"] == "c" && at["everything"] == "c" && at["thinking"] == "c"
	}, 30*time.Second, 50*time.Millisecond, "the only node that takes servers has them all")
	require.Contains(t, s.run("mcpvisor --config fleet:c --wait 20s call memory/echo text=again"), "again")

	// Another configuration: nodes follow it, and say why a server runs nowhere.
	gpu := fleetEntry(mcptest.Script{})
	gpu["node_labels"] = map[string]string{"gpu": "yes"}
	data, err = json.Marshal(map[string]any{"mcpServers": map[string]any{"memory": file.MCPServers["memory"], "gpu": gpu}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), data, 0o600))
	require.Regexp(t, `(?m)^added +gpu\nremoved +everything, thinking\nunchanged +1 server\nnothing was written; the fleet is at generation 1$`, s.run("mcpvisor fleet apply --dry-run other.json"))
	require.Contains(t, s.run("mcpvisor fleet apply other.json"), "generation 2;")
	var shown string
	require.Eventually(t, func() bool {
		shown = s.run("mcpvisor --config fleet:c status || true")
		return regexp.MustCompile(`(?m)^gpu +\S+ .* no node runs it: no node has the labels`).MatchString(shown) && !strings.Contains(shown, "thinking")
	}, 30*time.Second, 50*time.Millisecond)
	require.Regexp(t, `(?m)^memory +ready .* on node c$`, shown)
	require.Contains(t, s.run("mcpvisor --config fleet:c tools"), "memory/echo", "tools does not wait for a server that no node runs")
	require.Equal(t, http.StatusOK, probe(t, free[6], "/readyz"), "nor is the node unready because of it")
	s.run("kill %3 %4; wait %3 %4")
	s.run("kill %1")
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(response.Body)
	require.NoError(t, err)
	return b.String()
}

// The arguments of the manifests are those of the program.
func TestFleet_manifests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "fleet", "nodes.yaml"))
	require.NoError(t, err)
	var args []string
	require.NoError(t, json.Unmarshal(regexp.MustCompile(`(?m)^ +args: (\[.*\])$`).FindSubmatch(text)[1], &args))
	parser, err := newParser(new(commandLine), userFile, io.Discard, io.Discard, func(int) {})
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^# +mcpvisor (fleet .*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, commands, 2)
	for _, command := range commands {
		parser, err := newParser(new(commandLine), userFile, io.Discard, io.Discard, func(int) {})
		require.NoError(t, err)
		_, err = parser.Parse(strings.Fields(strings.ReplaceAll(command[1], "'", "")))
		require.NoError(t, err, command[1])
	}
}

// fleetEntry is an entry of a fleet, which gives no server up.
func fleetEntry(s mcptest.Script) map[string]any {
	e := entry(s)
	delete(e, "retry")
	return e
}

// startEtcd runs an etcd until the test ends, and names it for fleet commands.
func startEtcd(t *testing.T) {
	t.Helper()
	program, free := etcdProgram(t), freeAddresses(t, 2)
	client, peer := "http://"+free[0], "http://"+free[1]
	cmd := exec.Command(program, "--data-dir", t.TempDir(), "--log-level", "error", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Setenv("MCPVISOR_FLEET_ETCD", client)
}

// What gateways offer is applied with the servers, and each node follows it, also when it changes:
// profiles by path and by token, and on_down of an entry.
func TestFleet_gateway(t *testing.T) {
	startEtcd(t)
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	command := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, &errs), "%s%s", &out, &errs)
		return out.String()
	}
	dir, certs := t.TempDir(), filepath.Join(t.TempDir(), "certs")
	command("fleet", "certs", certs, "a", "b")
	file := filepath.Join(dir, "fleet.json")
	made, tokens := makeTokens(t, []string{"reader", "--profile", "read"})

	tools := []mcptest.ToolDef{{Name: "read", Text: "x"}, {Name: "write", Text: "y"}}
	pids := map[string]string{"kept": t.TempDir(), "withdrawn": t.TempDir()}
	servers := map[string]any{}
	for name, dir := range pids {
		e := fleetEntry(mcptest.Script{NoPrompts: true, Tools: tools, StateDir: dir})
		e["retry"] = map[string]any{"max_attempts": "unlimited", "base": "1h", "max": "1h"} // one that has ended stays down
		e["node_labels"] = map[string]any{"zone": "a"}
		servers[name] = e
	}
	servers["withdrawn"].(map[string]any)["on_down"] = "withdraw"
	apply := func(gateway string, args ...string) string {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(configOf(t, servers, gateway)), 0o600))
		return command(append([]string{"fleet", "apply", file}, args...)...)
	}
	require.Regexp(t, `(?m)^gateway  added$`, apply(`{"profiles": {"read": {"tools": ["read"]}}}`))

	sockets := shortDir(t)
	a := startRunIn(t, sockets, nil, "fleet", "run", "--node", "a", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded", "--label", "zone=a", "--mcp", "127.0.0.1:0", "--mcp-tokens", tokens)
	byToken := mcpURL(a)
	a.drain()
	b := startRunIn(t, sockets, nil, "fleet", "run", "--node", "b", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded", "--mcp", "127.0.0.1:0")
	byPath := mcpURL(b)
	b.drain()
	command("--config", "fleet:a", "--wait", "ready", "status")
	command("--config", "fleet:b", "--wait", "ready", "status")

	read, err := connect(t, byToken, made["reader"])
	require.NoError(t, err)
	readToo, err := connect(t, byPath+"/read", "")
	require.NoError(t, err)
	all, err := connect(t, byPath, "")
	require.NoError(t, err)
	_, err = connect(t, byPath+"/none", "")
	require.Error(t, err)
	require.Equal(t, []string{"kept__read", "withdrawn__read"}, toolNames(t, read))
	require.Equal(t, []string{"kept__read", "withdrawn__read"}, toolNames(t, readToo))
	require.Equal(t, []string{"kept__read", "kept__write", "withdrawn__read", "withdrawn__write"}, toolNames(t, all))

	require.Regexp(t, `(?m)^gateway  changed\nunchanged  2 servers\nnothing was written`, apply(`{"profiles": {"read": {"tools": ["write"]}}}`, "--dry-run"))
	apply(`{"profiles": {"read": {"tools": ["write"]}}}`)
	require.Eventually(t, func() bool {
		return slices.Equal([]string{"kept__write", "withdrawn__write"}, toolNames(t, read)) && slices.Equal(toolNames(t, read), toolNames(t, readToo))
	}, 20*time.Second, 10*time.Millisecond, "the sessions go on")

	refused := func(says string, args ...string) {
		t.Helper()
		out, code := runTool(t, args...)
		require.NotZero(t, code)
		require.True(t, code == 2 || !slices.Contains(args, "move"), out)
		require.Contains(t, out, says)
	}
	refused("node a is running already (pid ", "fleet", "run", "--node", "a", "--certs", certs, "--listen", "127.0.0.1:0", "--allow-unguarded")
	refused(`move server "kept" to node "z": the fleet has no such node; it may have ended, or have no lease; mcpvisor fleet status lists nodes and servers`, "fleet", "move", "kept", "z")
	refused(`move server "nosuch" to node "a": the fleet has no such server; mcpvisor fleet status lists nodes and servers`, "fleet", "move", "nosuch", "a")
	refused("--config fleet:a is a node, and its servers are those of its fleet", "--config", "fleet:a", "add", "new", "--", "x")
	require.NoFileExists(t, "fleet:a")

	for _, dir := range slices.Collect(maps.Values(pids)) {
		for _, pid := range mcptest.PIDs(dir) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	require.Eventually(t, func() bool { return slices.Equal([]string{"kept__write"}, toolNames(t, read)) }, 20*time.Second, 10*time.Millisecond, "the other is down and withdrawn")

	require.NoError(t, os.WriteFile(file, []byte(jsonText(t, map[string]any{"mcpServers": servers})), 0o600))
	require.Regexp(t, `(?m)^gateway  removed$`, command("fleet", "apply", file))
	require.Eventually(t, func() bool { _, err := connect(t, byPath+"/read", ""); return err != nil }, 20*time.Second, 10*time.Millisecond, "there is no profile")
	require.NoError(t, read.Close())
	require.NoError(t, readToo.Close())
	require.NoError(t, all.Close())
}
