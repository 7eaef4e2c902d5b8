package facade

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
)

// One error may be handed to several callers, and each adds what it attempted.
func TestWithOpLeavesASharedErrorAlone(t *testing.T) {
	shared := &messages.Error{Server: "fs", Kind: messages.KindClosed}
	var wg sync.WaitGroup
	for _, op := range []string{"register fs", "restart fs"} {
		wg.Go(func() {
			own, ok := withOp(shared, op).(*messages.Error)
			require.True(t, ok)
			require.Equal(t, op, own.Op)
			require.ErrorIs(t, own, messages.ErrClosed)
		})
	}
	wg.Wait()
	require.Equal(t, &messages.Error{Server: "fs", Kind: messages.KindClosed}, shared)
	require.NoError(t, withOp(nil, "register fs"))
}
