package edit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/config"
)

func TestTarget(t *testing.T) {
	chosen := cli.Sources{Paths: []string{"a.json", "b.json"}, Chosen: true}
	found := cli.Sources{Paths: []string{cli.UserConfig()}}
	for _, c := range []struct {
		sources cli.Sources
		user    bool
		want    string
	}{
		{chosen, false, "b.json"},
		{chosen, true, ""}, // two files are named
		{found, false, config.DefaultPath},
		{found, true, cli.UserConfig()},
		{cli.NodeSources("a"), false, ""}, // a node of a fleet is no file
	} {
		path, err := target(c.sources, c.user)
		require.Equal(t, c.want, path)
		require.Equal(t, c.want == "", err != nil)
	}
	require.Empty(t, Entries(chosen, true))
}

// A change is made again if another program has written the file meanwhile, whose change
// stays.
func TestEditTarget_again_after_another_change(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	var errs strings.Builder
	inv := &cli.Invocation{Context: context.Background(), Err: &errs, Sources: cli.Sources{Paths: []string{path}, Chosen: true}}
	for times, name := range []string{"one", "two"} {
		calls := 0
		_, err := editTarget(inv, targetFlags{}, func(f *configfile.File) error {
			if calls++; calls == times { // the first change finds no other program
				require.NoError(t, os.WriteFile(path, []byte(`{"servers": {"theirs": {"command": "x"}}}`), 0o600))
			}
			return f.Set(name, configfile.Object{{Key: "command", Value: "x"}})
		})
		require.NoError(t, err)
		require.Equal(t, times+1, calls)
	}
	require.Equal(t, []string{"theirs", "two"}, Entries(inv.Sources, false))
}
