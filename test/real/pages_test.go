//go:build real

package real

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// page is a page whose lines are typed, and the folder below the home directory where its reader is.
type page struct{ file, folder string }

// typedPages are in the order in which they are typed. ~/mcpvisor is the clone.
var typedPages = []page{
	{"README.md", "mcpvisor"}, {"docs/quickstart.md", "."}, {"docs/http-api.md", "notes"}, {"docs/gateway.md", "notes"}, {"docs/tasks.md", "notes"},
}

// elsewhere are lines that this test does not type, by their beginnings, with what does.
var elsewhere = map[string]string{
	"go run ./cmd/demo": "the step demo",
	"go test ":          "the step test",
	"make test-all":     "the steps test and adapters",
	"mcpvisor chaos ":   "TestCLI_chaos",
	"mcpvisor run --mcp 0.0.0.0:7788 --mcp-oidc-issuer": "TestOIDC of cmd/mcpvisor, which has an issuer",
}

// stays are commands that run until Ctrl-C, by their beginnings, with a text that they print when they
// work. Each gets a terminal of its own until the end of the page.
var stays = map[string]string{
	"mcpvisor run --": " ready", "mcpvisor top": "filesystem", "mcpvisor logs ": "Filesystem Server running",
	"curl -N ": "event: hello", "go run .": "clock/now: ",
}

// Each line of the pages can be typed as it stands, in their order, by a user with an empty home
// directory, a clone and npm. It ends with 0, or prints what the page shows: below "$ " in a block of
// type console all of it, in the block of type text or json behind its own each line.
func TestPages_typed(t *testing.T) {
	home, err := os.MkdirTemp("", "mv") //nolint:usetesting // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	clone, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".run"), 0o700))
	require.NoError(t, os.Symlink(clone, filepath.Join(home, "mcpvisor")))
	// npx finds the locked packages, and asks no registry. An error of HTTP is one of curl.
	require.NoError(t, os.Symlink(module(t, "node_modules"), filepath.Join(home, "node_modules")))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".npmrc"), []byte("offline=true\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte("fail-with-body\n"), 0o600))
	// The user of README.md has another host, with a server that mcpvisor import finds.
	otherHost := filepath.Join(home, ".claude.json")
	require.NoError(t, os.WriteFile(otherHost, []byte(`{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}}}`), 0o600))
	ports := strings.NewReplacer(":7777", typedPort(t), "0.0.0.0:7788", "127.0.0.1"+typedPort(t), ":7788", typedPort(t))
	unused := map[string]bool{}
	for line := range elsewhere {
		unused[line] = true
	}
	for i, page := range typedPages {
		text, err := os.ReadFile(filepath.Join(clone, page.file))
		require.NoError(t, err)
		sh := newShell(t, home, i > 1)
		sh.mustType("set -P; cd ~/" + page.folder)
		typed, skipped := 0, false
		for _, b := range blocksOf(string(text)) {
			switch {
			case b.saveAs != "":
				require.NoError(t, os.WriteFile(filepath.Join(sh.dir(), b.saveAs), []byte(b.text), 0o600))
			case b.shows != "" && !skipped:
				sh.requireShown(page.file, b)
			}
			for _, step := range b.steps {
				at := fmt.Sprintf("%s: %s", page.file, step.command)
				line := beginning(elsewhere, step.command)
				if skipped = line != ""; skipped {
					delete(unused, line)
					continue
				}
				typed++
				command := sh.replacePIDs(ports.Replace(step.command))
				if line := beginning(stays, step.command); line != "" && !background.MatchString(step.command) {
					sh.open(at, command, stays[line])
					continue
				}
				began := time.Now()
				out, code := sh.typeLine(at, command)
				t.Logf("%5.1fs  %s", time.Since(began).Seconds(), at)
				if step.shows == "" && !b.console {
					require.Zero(t, code, "%s\n%s", at, out)
				} else {
					require.Equal(t, plain(step.shows), plain(out), at)
				}
			}
		}
		require.Positive(t, typed, page.file)
		sh.end()
		_ = os.Remove(otherHost)
	}
	require.Empty(t, unused, "no page has these lines")
}

// background matches a line that does not wait for its command.
var background = regexp.MustCompile(`&\s*(#.*)?$`)

// beginning returns the key that a line begins with; "" without one.
func beginning(table map[string]string, line string) string {
	for key := range table {
		if strings.HasPrefix(line, key) {
			return key
		}
	}
	return ""
}

func typedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port)
}

// block is a block of code of a page: lines to type, a file to save, or output.
type block struct {
	console bool
	steps   []step
	saveAs  string
	shows   string // "text" or "json"
	text    string
}

// step is one line to type, and what the page shows below it.
type step struct{ command, shows string }

var (
	codeBlock = regexp.MustCompile("(?ms)((?:^[^\n]+\n)*)(\n*)^```([a-z]*)\n(.*?)^```$")
	saveThis  = regexp.MustCompile("Save this as `([^`]+)`")
)

// blocksOf returns the blocks of a page that matter. A block of type json is output if nothing stands
// between it and a block that is typed.
func blocksOf(page string) (blocks []block) {
	afterTyped := false
	for _, m := range codeBlock.FindAllStringSubmatch(page, -1) {
		before, kind, b := m[1], m[3], block{text: m[4]}
		direct := afterTyped && strings.TrimSpace(before) == "" // a direct one has no text before it
		afterTyped = false
		switch kind {
		case "":
			for line := range strings.Lines(b.text) {
				b.steps = append(b.steps, step{command: strings.TrimSpace(line)})
			}
			afterTyped = true
		case "console":
			b.console = true
			for _, one := range strings.Split("\n"+b.text, "\n$ ")[1:] {
				command, shows, _ := strings.Cut(one, "\n")
				b.steps = append(b.steps, step{command, shows})
			}
		case "go":
			if name := saveThis.FindStringSubmatch(before); name != nil {
				b.saveAs = name[1]
			}
		case "text":
			b.shows = kind
		case "json":
			if direct {
				b.shows = kind
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// shell is a bash with an empty home directory. What its commands and its other terminals print is kept.
type shell struct {
	t     *testing.T
	in    io.Writer
	ended func() error

	mu      sync.Mutex
	printed strings.Builder // by all terminals
	pids    map[string]string
	from    int // where the output of the last typed line begins
	changed chan struct{}
}

const (
	patience = 5 * time.Minute // for each line
	done     = "\x01done "
)

func newShell(t *testing.T, home string, installed bool) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--norc", "--noprofile")
	path := filepath.SplitList(os.Getenv("PATH"))
	path = slices.DeleteFunc(path, func(folder string) bool { return exists(filepath.Join(folder, "mcpvisor")) })
	if installed {
		path = append(path, filepath.Join(home, "go", "bin"))
	}
	cmd.Env = append(goEnvironment(t), "HOME="+home, "XDG_RUNTIME_DIR="+home+"/.run", "PATH="+strings.Join(path, ":"), "TERM=xterm", "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = write, write
	require.NoError(t, cmd.Start())
	_ = write.Close()
	sh := &shell{t: t, in: in, pids: map[string]string{}, changed: make(chan struct{}, 1)}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for text := make([]byte, 64<<10); ; {
			n, err := read.Read(text)
			sh.mu.Lock()
			sh.printed.Write(text[:n])
			sh.mu.Unlock()
			select {
			case sh.changed <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	sh.ended = cmd.Wait
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = read.Close()
		<-closed
	})
	sh.mustType("set -m")
	return sh
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// goEnvironment has Go use its caches, and ask its proxy only for what is not there.
func goEnvironment(t *testing.T) (env []string) {
	t.Helper()
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOSUMDB", "GONOSUMDB").Output()
	require.NoError(t, err)
	var values map[string]string
	require.NoError(t, json.Unmarshal(out, &values))
	values["GOPROXY"] = "file://" + values["GOMODCACHE"] + "/cache/download," + values["GOPROXY"]
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	return env
}

// await waits until found accepts what was printed since the last line was typed, and returns that.
func (sh *shell) await(at string, found func(string) bool) string {
	sh.t.Helper()
	ctx, cancel := context.WithTimeout(sh.t.Context(), patience)
	defer cancel()
	for {
		sh.mu.Lock()
		since := sh.printed.String()[sh.from:]
		sh.mu.Unlock()
		if found(since) {
			return since
		}
		select {
		case <-sh.changed:
		case <-ctx.Done():
			require.FailNow(sh.t, "it does not end, or does not print what it should", "%s\n%s", at, since)
		}
	}
}

var doneLine = regexp.MustCompile(done + `(\d+)\n`)

// typeLine types a line, waits for its end, and returns what it printed and its exit code.
func (sh *shell) typeLine(at, line string) (out string, code int) {
	sh.t.Helper()
	sh.mu.Lock()
	sh.from = sh.printed.Len()
	sh.mu.Unlock()
	_, err := fmt.Fprintf(sh.in, "{ %s\n} </dev/null; printf '\\n\\001done %%d\\n' $?\n", line)
	require.NoError(sh.t, err)
	out = sh.await(at, doneLine.MatchString)
	m := doneLine.FindStringSubmatchIndex(out)
	code, err = strconv.Atoi(out[m[2]:m[3]])
	require.NoError(sh.t, err)
	return jobs.ReplaceAllString(out[:m[0]], ""), code
}

// jobs are what bash says about commands in the background.
var jobs = regexp.MustCompile(`(?m)^\[\d+\][-+ ].*\n?`)

func (sh *shell) mustType(line string) string {
	sh.t.Helper()
	out, code := sh.typeLine(line, line)
	require.Zero(sh.t, code, "%s\n%s", line, out)
	return strings.TrimSpace(out)
}

func (sh *shell) dir() string { return sh.mustType("pwd") }

// open types a line into a terminal of its own, and waits until it prints a text.
func (sh *shell) open(at, line, text string) {
	sh.t.Helper()
	if strings.HasPrefix(line, "mcpvisor top") {
		line = "tail -f /dev/null | script -qec 'stty rows 24 cols 120; mcpvisor top' /dev/null"
	}
	sh.mustType("{ " + line + "\n} &")
	sh.await(at, func(out string) bool { return strings.Contains(out, text) })
}

// end presses Ctrl-C in the terminals, and waits for the ends of their commands.
func (sh *shell) end() {
	sh.t.Helper()
	sh.mustType("for job in $(jobs -p); do kill -INT -- -$job; done; wait")
	_, err := io.WriteString(sh.in, "exit\n")
	require.NoError(sh.t, err)
	require.NoError(sh.t, sh.ended())
}

// requireShown waits until the terminals have printed what a block shows.
func (sh *shell) requireShown(at string, b block) {
	sh.t.Helper()
	if b.shows == "json" {
		var want, got any
		require.NoError(sh.t, json.Unmarshal([]byte(b.text), &want))
		out := sh.await(at, doneLine.MatchString)
		require.NoError(sh.t, json.NewDecoder(strings.NewReader(out)).Decode(&got), out)
		require.Equal(sh.t, withoutNumbers(want), withoutNumbers(got), at)
		return
	}
	for line := range strings.Lines(b.text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		want := plain(line)
		sh.await(at+" shows "+line, func(out string) bool {
			for printed := range strings.Lines(out) {
				if plain(printed) == want {
					for i, m := range pid.FindAllStringSubmatch(line, -1) {
						sh.pids[m[1]] = pid.FindAllStringSubmatch(printed, -1)[i][1]
					}
					return true
				}
			}
			return false
		})
	}
}

var pid = regexp.MustCompile(`\bpid (\d+)`)

// replacePIDs replaces the process ids that the page shows by those that were printed.
func (sh *shell) replacePIDs(line string) string {
	for shown, is := range sh.pids {
		line = strings.ReplaceAll(line, shown, is)
	}
	return line
}

// withoutNumbers replaces the numbers of JSON by 0.
func withoutNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		return 0
	case []any:
		for i := range v {
			v[i] = withoutNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = withoutNumbers(v[key])
		}
	}
	return v
}

// These are what differs from run to run.
var (
	answered  = regexp.MustCompile(`([^\n])(notes/add answered in )`) // a terminal has a line end before it, a pipe has not
	clocks    = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	durations = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`)
	numbers   = regexp.MustCompile(`\b\d{2,}\b`)            // process ids
	sizes     = regexp.MustCompile(`\b\d+(\.\d+)?[KMGT]\b`) // memory, which may not be known yet
	spaces    = regexp.MustCompile(` +`)
)

// plain returns a text without what differs from run to run, and with one space between columns.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(answered.ReplaceAllString(text, "$1\n$2")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		line = clocks.ReplaceAllString(line, "CLOCK")
		line = durations.ReplaceAllString(line, "TIME")
		line = sizes.ReplaceAllString(line, "-")
		line = numbers.ReplaceAllString(line, "NUMBER")
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return strings.Join(lines, "\n")
}
