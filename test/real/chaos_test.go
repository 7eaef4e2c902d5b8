//go:build real

package real

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
)

// Five servers from npm bear a storm, and a command that is no server does not start.
func TestCLI_chaos(t *testing.T) {
	memory := node(scope + "server-memory/dist/index.js")(t)
	memory.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")}
	path := writeConfig(t, map[string]*mcpvisor.Stdio{
		"everything": node(scope + "server-everything/dist/index.js")(t),
		"filesystem": node(scope+"server-filesystem/dist/index.js", module(t, "testdata"))(t),
		"memory":     memory,
		"thinking":   node(scope + "server-sequential-thinking/dist/index.js")(t),
		"context7":   context7(t),
		"broken":     {Command: "node", Args: []string{"no-such-script.js"}},
	})
	out, errs, code := run(t, buildCLI(t), "--config", path, "--json", "chaos", "--duration", "8s",
		"--tool", "thinking/sequentialthinking", "--args", `{"thought":"x","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`)
	require.Equal(t, 3, code, errs)
	var report chaos.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), errs)
	require.Len(t, report.Servers, 6)
	for _, s := range report.Servers {
		if s.Server == "broken" {
			require.Equal(t, chaos.FindingNotStarted, s.Findings[0].Kind)
			continue
		}
		require.True(t, s.Passed, "seed %d: %+v", report.Seed, s)
		require.NotEmpty(t, s.Faults, s.Server)
		require.Positive(t, s.Calls.OK, s.Server)
	}
}
