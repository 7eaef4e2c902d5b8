package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Arguments that cannot be sent say what is wrong with them, and nothing is called.
func TestCall_arguments_refused(t *testing.T) {
	path := configFile(t, mcptest.Script{})
	for argument, want := range map[string]string{
		`b`:                   `argument "b" is not key=value`,
		`=x`:                  `argument "=x" is not key=value`,
		`{"text":`:            `the arguments are not valid JSON`,
		`[1]`:                 `the arguments are not a JSON object`,
		"{\"text\":\"\xff\"}": `is not UTF-8`,
		"text=\xff":           `is not UTF-8`,
	} {
		out, code := runTool(t, "-c", path, "call", "one/echo", argument)
		require.Equal(t, cli.ExitUsage, code, "%q: %s", argument, out)
		require.Contains(t, out, want)
	}
	out, code := runTool(t, "-c", path, "prompt", "one", "greet", "name=\xff")
	require.Equal(t, cli.ExitUsage, code, out)
	require.Contains(t, out, "is not UTF-8")
}
