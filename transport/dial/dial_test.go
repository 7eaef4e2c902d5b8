package dial

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestNew(t *testing.T) {
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"stdio":  {Stdio: &mcpvisor.Stdio{Command: "server"}},
		"HTTP":   {HTTP: &mcpvisor.HTTP{URL: "http://host/mcp"}},
		"memory": {InMemory: &mcpvisor.InMemory{}},
		"custom": {Transport: &mcpvisor.Transport{}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := New(spec, transport.Options{})
			require.NoError(t, err)
			require.NotNil(t, d.NewSession())
		})
	}
	t.Run("no transport", func(t *testing.T) {
		_, err := New(mcpvisor.ServerSpec{Name: "s"}, transport.Options{})
		require.ErrorContains(t, err, `server "s" has no transport`)
	})
}
