package streamable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
)

func TestSecretsOfTheSpecOverHTTP(t *testing.T) {
	const word = "correct horse"
	e, err := endpoint.New(mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: "http://host/mcp"}, Secrets: []string{word}})
	require.NoError(t, err)
	require.Equal(t, "no ***", e.Redact("no "+word))
}
