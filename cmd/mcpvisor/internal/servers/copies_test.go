package servers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// A start is waited for until the server's own timeouts have ended it.
func TestStartTimeout(t *testing.T) {
	c := Copies{Specs: map[string]mcpvisor.ServerSpec{"a": {}, "b": {Timeouts: mcpvisor.Timeouts{Start: 1, List: -1}}}}
	require.Greater(t, c.startTimeout(), defaults.StartTimeout+defaults.ListTimeout)
}
