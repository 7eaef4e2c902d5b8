package config

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that only checks a configuration needs none of the files with secrets.
func TestWithFiles(t *testing.T) {
	text := []byte(`{"mcpServers": {"a": {"command": "x", "env": {"KEY": "${file:/nowhere/key}"}}}}`)
	f, err := Parse(text, "c.json", WithFiles(func(path string) (string, error) {
		require.Equal(t, "/nowhere/key", path)
		return "value", nil
	}))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, "value", f.Servers[0].Spec.Stdio.Env["KEY"])
	require.Contains(t, f.Servers[0].Spec.Secrets, "value")
	f, err = Parse(text, "c.json", WithFiles(func(string) (string, error) { return "", errors.New("no") }))
	require.NoError(t, err)
	require.Contains(t, f.Problems[0].Message, "${file:/nowhere/key}: no")
	f, err = Parse(text, "c.json", WithFiles(nil))
	require.NoError(t, err)
	require.Contains(t, f.Problems[0].Message, "does not exist")
}
