package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const inputFile = `{
  "inputs": [
    {"type": "promptString", "id": "api-key", "description": "API key", "password": true},
    {"type": "promptString", "id": "region", "default": "eu"},
    {"type": "pickString", "id": "size", "options": ["s", {"label": "Medium", "value": "m"}], "default": "m"},
    "not an object"
  ],
  "servers": {"s": {"command": "x", "args": ["${input:api-key}", "${input:region}", "${input:size}", "${input:other}"]}}
}`

// The variable answers first, then the user, then the default.
func TestInput(t *testing.T) {
	vars := map[string]string{"MCPVISOR_INPUT_API_KEY": "k", "MCPVISOR_INPUT_OTHER": "o"}
	f, err := Parse([]byte(inputFile), "mcp.json", env(vars))
	require.NoError(t, err)
	require.Empty(t, f.Problems)
	require.Equal(t, []string{"k", "eu", "m", "o"}, f.Servers[0].Spec.Stdio.Args)
	require.Equal(t, []string{"k"}, f.Servers[0].Spec.Secrets, "only what is declared as a password")

	var asked []Input
	f, err = Parse([]byte(inputFile), "mcp.json", env(vars), WithInput(func(i Input) (string, error) {
		asked = append(asked, i)
		return "answer " + i.ID, nil
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"k", "answer region", "answer size", "o"}, f.Servers[0].Spec.Stdio.Args)
	require.Equal(t, []Input{{ID: "region", Default: "eu"}, {ID: "size", Default: "m", Options: []string{"s", "m"}}}, asked)

	f, err = Parse([]byte(inputFile), "mcp.json", env(nil))
	require.NoError(t, err)
	require.Empty(t, f.Servers)
	require.Contains(t, f.Problems[0].Message, "${input:api-key} needs an answer of the user; set MCPVISOR_INPUT_API_KEY, or run the command in a terminal")
}

func TestInput_password_is_declared(t *testing.T) {
	var asked []Input
	_, err := Parse([]byte(inputFile), "mcp.json", env(nil), WithInput(func(i Input) (string, error) {
		asked = append(asked, i)
		return "x", nil
	}))
	require.NoError(t, err)
	require.Equal(t, Input{ID: "api-key", Description: "API key", Password: true}, asked[0])
}
