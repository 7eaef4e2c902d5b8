package streamable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestSecretsOfTheSpecOverHTTP(t *testing.T) {
	const word = "correct horse"
	e, err := New(mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: "http://host/mcp"}, Secrets: []string{word}})
	require.NoError(t, err)
	require.Equal(t, "no ***", e.Redact("no "+word))
}
