package facade

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Several callers may get the same error, and each adds its own Op to a copy.
func TestWithOp_copies_a_shared_error(t *testing.T) {
	shared := &mcpvisor.Error{Server: "fs", Kind: mcpvisor.KindClosed}
	var wg sync.WaitGroup
	for _, op := range []string{"register fs", "restart fs"} {
		wg.Go(func() {
			own, ok := withOp(shared, op).(*mcpvisor.Error)
			require.True(t, ok)
			require.Equal(t, op, own.Op)
			require.ErrorIs(t, own, mcpvisor.ErrClosed)
		})
	}
	wg.Wait()
	require.Equal(t, &mcpvisor.Error{Server: "fs", Kind: mcpvisor.KindClosed}, shared)
	require.NoError(t, withOp(nil, "register fs"))
}
