package actors

import (
	"context"
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/testutil"
)

// The first client of a process pays no more for the actor library than later ones.
func TestPrototype(t *testing.T) {
	made := newPrototype()
	library := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	require.Equal(t, localAddress, library.Address())
	require.False(t, made.IsStopped())
	require.NotNil(t, made.Logger())
	require.False(t, made.Logger().Enabled(context.Background(), 100), "the log is discarded")
	require.Equal(t, library.Config.DeadLetterThrottleCount, made.Config.DeadLetterThrottleCount)
	require.Nil(t, made.ProcessRegistry)
	allocs, bytes := testutil.Allocations(10, func() { newPrototype() })
	t.Logf("%.0f allocations, %.0f bytes", allocs, bytes)
	require.Less(t, allocs, 100.0)
	require.Less(t, bytes, 20e3)
}
