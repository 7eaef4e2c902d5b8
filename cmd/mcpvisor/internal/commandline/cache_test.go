package commandline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
)

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	c := commandline.Cache{Path: filepath.Join(dir, "names.json")}
	require.Empty(t, c.Tools("k", "d"))
	tools := []commandline.Candidate{{Value: "fs/list", Description: "Lists."}}
	c.Store("k", "d", tools)
	require.Equal(t, tools, c.Tools("k", "d"))
	require.Empty(t, c.Tools("k", "other"), "the configuration has changed")
	require.Empty(t, c.Tools("other", "d"))
	for i := range 30 {
		c.Store(fmt.Sprint(i), "d", tools)
	}
	require.Empty(t, c.Tools("k", "d"), "the oldest are dropped")
	require.Equal(t, tools, c.Tools("29", "d"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.NoError(t, os.WriteFile(c.Path, []byte("{"), 0o600))
	require.Empty(t, c.Tools("29", "d"))
	c.Store("k", "d", tools)
	require.Equal(t, tools, c.Tools("k", "d"))
	commandline.Cache{}.Store("k", "d", tools)
	require.Empty(t, commandline.Cache{}.Tools("k", "d"))
}
