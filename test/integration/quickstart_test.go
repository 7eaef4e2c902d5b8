package integration

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuickstart builds the two programs of docs/quickstart.md unchanged, runs the
// service, kills its server and waits for the recovery.
func TestQuickstart(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart.md")
	require.NoError(t, err)
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(page, -1)
	require.Len(t, programs, 2, "the page has a server and a service")
	dir := t.TempDir()
	server, service := buildProgram(t, dir, "notes-server", programs[0][1]), buildProgram(t, dir, "service", programs[1][1])
	require.FileExists(t, server)

	cmd := exec.Command(service)
	cmd.Dir = dir // the service starts ./notes-server
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range lines { // until the pipe is closed
		}
		_ = cmd.Wait()
	})
	deadline := time.After(time.Minute)
	var printed []string
	from := 0 // two goroutines print events and results, in any order
	await := func(pattern string) []string {
		re := regexp.MustCompile(pattern)
		for next := from; ; next++ {
			for next == len(printed) {
				select {
				case line, open := <-lines:
					require.True(t, open, "the service ended before it printed %q", pattern)
					printed = append(printed, line)
				case <-deadline:
					require.FailNow(t, "the service did not print "+pattern, strings.Join(printed, "\n"))
				}
			}
			if found := re.FindStringSubmatch(printed[next]); found != nil {
				return found
			}
		}
	}

	pid := await(`^event: notes ready: .*, pid (\d+)`)[1]
	await(`^tool: clock/now$`)
	await(`^tool: notes/add$`)
	await(`^notes/add: 2 notes$`)
	killProcess(t, pid)
	from = len(printed)
	await(`^event: notes down: `)
	await(`^event: notes retry 1/5 in 100ms$`)
	await(`^event: notes ready: .*, epoch 2, pid `)
	await(`^notes/add: 1 notes$`) // the new process starts with an empty memory
	await(`^clock/now: `)
}

// buildProgram compiles one program as a package of this module. A build overlay places
// its file in a folder that does not exist.
func buildProgram(t *testing.T, dir, name string, program []byte) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(dir, name+".go"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, program, 0o600))
	place, err := filepath.Abs(filepath.Join("..", "..", "quickstart-"+name, "main.go"))
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, name+".json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	binary := filepath.Join(dir, name)
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	cmd := exec.Command("go", "build", "-overlay", overlayFile, "-o", binary, "./quickstart-"+name)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", name, strings.TrimSpace(string(out)))
	return binary
}

func killProcess(t *testing.T, pid string) {
	t.Helper()
	id, err := strconv.Atoi(pid)
	require.NoError(t, err)
	process, err := os.FindProcess(id)
	require.NoError(t, err)
	require.NoError(t, process.Kill())
}
