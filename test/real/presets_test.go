//go:build real

package real

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Each preset of `mcpvisor add` that is a package of npm and needs no key becomes ready, as
// it was added. npx finds the locked packages, and asks no registry.
func TestCLI_presets(t *testing.T) {
	bin := buildCLI(t)
	path := filepath.Join(t.TempDir(), "x.json")
	out, errs, code := run(t, bin, "--json", "add", "--list")
	require.Zero(t, code, errs)
	var list struct {
		Presets []struct{ Name, Args, Needs string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	added := 0
	for _, p := range list.Presets {
		if p.Needs != "" {
			continue
		}
		var args []string
		if p.Args != "" {
			args = []string{t.TempDir()}
		}
		out, errs, code := run(t, bin, append([]string{"--config", path, "--json", "add", p.Name}, args...)...)
		require.Zero(t, code, errs)
		var result struct{ Entry struct{ Command string } }
		require.NoError(t, json.Unmarshal([]byte(out), &result))
		if result.Entry.Command != "npx" {
			_, errs, code := run(t, bin, "--config", path, "remove", p.Name)
			require.Zero(t, code, errs)
			continue
		}
		added++
		_, errs, code = run(t, bin, append([]string{"--config", path, "add", p.Name, "--replace", "--cwd", module(t, "."), "--env", "npm_config_offline=true"}, args...)...)
		require.Zero(t, code, errs)
	}
	require.GreaterOrEqual(t, added, 7)
	out, errs, code = run(t, bin, "--config", path, "--json", "status")
	var status struct{ Servers []mcpvisor.ServerStatus }
	require.NoError(t, json.Unmarshal([]byte(out), &status), errs)
	require.Len(t, status.Servers, added)
	for _, s := range status.Servers {
		require.Equal(t, supervisor.StateReady, s.State, "%s: %s %s", s.Name, out, errs)
		require.Positive(t, s.Catalog.Tools, s.Name)
	}
	require.Zero(t, code, errs)
}
