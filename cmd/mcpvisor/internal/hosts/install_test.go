package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

var command = []string{"/usr/bin/mcpvisor", "--config", `/home/a "b"/c.json`, "stdio"}

// What is added to the file of a host is an entry as its servers are, everything else stays, and
// the file as it was is kept. It is written once.
func TestInstallation(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, h := range All() {
			t.Run(system+" "+h.ID, func(t *testing.T) {
				m := newMachine(t, system)
				if h.importOnly {
					_, err := h.PlanInstall(m.env, "mcpvisor", command, false)
					require.ErrorContains(t, err, "add a server with this command there: ")
					return
				}
				plan, err := h.PlanInstall(m.env, "mcpvisor", command, false)
				require.NoError(t, err)
				require.False(t, plan.Present)
				before, err := os.ReadFile(plan.Path)
				require.NoError(t, err)
				were, _, err := h.read(before, m.env)
				require.NoError(t, err)
				backup, err := plan.Write()
				require.NoError(t, err)
				require.True(t, backup)
				kept, err := os.ReadFile(plan.BackupPath())
				require.NoError(t, err)
				require.Equal(t, string(before), string(kept))

				after, err := os.ReadFile(plan.Path)
				require.NoError(t, err)
				require.NotEqual(t, string(before), string(after))
				for _, line := range strings.Split(strings.TrimSpace(string(before)), "\n") {
					require.Contains(t, string(after), strings.TrimRight(line, ",}] \t"))
				}
				are, _, err := h.read(after, m.env)
				require.NoError(t, err)
				require.Len(t, are, len(were)+1)
				requireInstalled(t, h, are)

				plan, err = h.PlanInstall(m.env, "mcpvisor", command, false)
				require.NoError(t, err)
				require.True(t, plan.Present)
				_, err = h.PlanInstall(m.env, "mcpvisor", command[:2], false)
				require.ErrorIs(t, err, ErrOtherEntry)
			})
		}
	}
}

// requireInstalled requires the entry among those of a host.
func requireInstalled(t *testing.T, h Host, entries []raw) {
	t.Helper()
	for _, r := range entries {
		if r.name != "mcpvisor" {
			continue
		}
		require.True(t, runsMcpvisor(r.entry))
		entry, notes, err := h.convert(commandAndArgs(r.entry))
		require.NoError(t, err)
		require.Empty(t, notes)
		require.Equal(t, command[0], entry.Get("command"))
		require.Equal(t, []any{command[1], command[2], command[3]}, entry.Get("args"))
		return
	}
	require.Fail(t, "no entry")
}

// A host without a file gets one.
func TestInstallation_without_a_file(t *testing.T) {
	for _, h := range All() {
		for _, project := range []bool{false, true} {
			if h.importOnly {
				continue
			}
			if project && h.project == nil {
				_, err := h.PlanInstall(Environment{}, "x", command, project)
				require.ErrorContains(t, err, "leave out --project")
				continue
			}
			e := Environment{OS: "linux", Home: t.TempDir(), Dir: t.TempDir()}
			plan, err := h.PlanInstall(e, "mcpvisor", command, project)
			require.NoError(t, err)
			backup, err := plan.Write()
			require.NoError(t, err)
			require.False(t, backup)
			text, err := os.ReadFile(plan.Path)
			require.NoError(t, err)
			entries, _, err := h.read(text, e)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			requireInstalled(t, h, entries)
			info, err := os.Stat(plan.Path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}
	}
}

// An import leaves out the entry that starts mcpvisor.
func TestNewPlan_of_an_installed_host(t *testing.T) {
	e := Environment{OS: "linux", Home: t.TempDir(), Dir: t.TempDir()}
	h, _ := ByID("cursor")
	installed, err := h.PlanInstall(e, "mcpvisor", command, false)
	require.NoError(t, err)
	_, err = installed.Write()
	require.NoError(t, err)
	target, err := configfile.Open(filepath.Join(e.Dir, "c.json"))
	require.NoError(t, err)
	plan, err := NewPlan(target, h.Find(e), e, Keep, os.LookupEnv)
	require.NoError(t, err)
	require.Len(t, plan.Items, 1)
	require.Equal(t, ActionRefuse, plan.Items[0].Action)
	require.Equal(t, "it starts mcpvisor itself", plan.Items[0].Reason)
}
