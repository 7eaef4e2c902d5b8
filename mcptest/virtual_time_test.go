package mcptest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// What docs/testing.md says about virtual time: in a bubble the delays of a policy and the
// timeouts of calls pass at once, and to the exact value.
func TestInMemory_in_virtual_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close(ctx)) }()
		require.NoError(t, client.Register(ctx, mcpvisor.ServerSpec{Name: "web",
			InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, 10*time.Second)}))
		_, err = client.CallTool(ctx, "web/crash", nil)
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		began := time.Now()
		require.NoError(t, client.WaitReady(ctx, "web"))
		require.Equal(t, 10*time.Second, time.Since(began))
		began = time.Now()
		_, err = client.CallTool(ctx, "web/hang", nil, facade.WithTimeout(time.Minute))
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		require.Equal(t, time.Minute, time.Since(began))
	})
}
