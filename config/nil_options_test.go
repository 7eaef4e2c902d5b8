package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/config"
)

// Nil options count as defaults.
func TestNilOptions(t *testing.T) {
	t.Setenv("NIL_OPTIONS", "echo")
	f, err := config.Parse([]byte(`{"mcpServers":{"s":{"command":"${NIL_OPTIONS}"}}}`), "c.json", nil, config.WithLookup(nil))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, "echo", f.Specs()[0].Stdio.Command)
}

// No file is not an empty file: a program that follows its configuration would end every
// server.
func TestLoadFiles_none(t *testing.T) {
	_, err := config.LoadFiles(nil)
	require.ErrorContains(t, err, "no file is named")
}
