//go:build real

package real

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// buildCLI builds cmd/mcpvisor.
func buildCLI(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "mcpvisor")
	out, err := exec.Command("go", "build", "-o", bin, "../../cmd/mcpvisor").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

func writeConfig(t *testing.T, entries map[string]*mcpvisor.Stdio) string {
	t.Helper()
	list := map[string]any{}
	for name, s := range entries {
		list[name] = map[string]any{"command": s.Command, "args": s.Args, "env": s.Env}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": list})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func run(t *testing.T, bin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), code
}

func TestCLI_with_real_servers(t *testing.T) {
	bin := buildCLI(t)
	entries := map[string]*mcpvisor.Stdio{"broken": {Command: "node", Args: []string{"no-such-script.js"}}}
	for _, s := range servers[:4] {
		entries[s.name] = s.stdio(t)
	}
	path := writeConfig(t, entries)

	// Four of the five servers work.
	out, errs, code := run(t, bin, "--config", path, "--json", "tools")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "server broken has failed") // printed in a warning
	var list struct {
		Tools []mcpvisor.Tool `json:"tools"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	count := map[string]int{}
	for _, one := range list.Tools {
		require.True(t, strings.HasPrefix(one.Name, one.Server+"/"))
		count[one.Server]++
	}
	require.Len(t, count, 4)
	for _, s := range servers[:4] {
		require.GreaterOrEqual(t, count[s.name], s.tools, s.name)
	}

	args, err := json.Marshal(map[string]string{"path": module(t, "testdata")})
	require.NoError(t, err)
	out, errs, code = run(t, bin, "--config", path, "call", "filesystem/list_directory", string(args))
	require.Zero(t, code, errs)
	require.Equal(t, "[FILE] hello.txt", out)

	out, _, code = run(t, bin, "--config", path, "doctor")
	require.Equal(t, 3, code)
	require.Contains(t, out, "FAIL  broken: Error: Cannot find module")
	require.Contains(t, out, "Cannot find module")
	require.Equal(t, 4, strings.Count(out, "ok    "))
}
