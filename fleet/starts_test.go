package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// TestNode_starts_that_hang: they delay the start of others, and do not stop it.
func TestNode_starts_that_hang(t *testing.T) {
	w := newWorld(t)
	n := w.join("a")
	hanging := cap(n.starts)
	all := someServers(hanging+1, 0)
	for _, s := range all[:hanging] {
		w.scripts[s.Name] = mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionHangAll}}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than the default of Timeouts.Start
	defer cancel()
	_, err := n.Apply(ctx, all[:hanging])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(n.starts) == hanging }, 10*time.Second, time.Millisecond, "they have all places")
	_, err = n.Apply(ctx, all)
	require.NoError(t, err)
	require.NoError(t, n.WaitReady(ctx, all[hanging].Name))
}
