package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/memory"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Subject {
		s := memory.New()
		return storetest.Subject{Store: s, Compact: s.Compact, Away: func() func() {
			s.Disconnect()
			s.SetAway(true)
			return func() { s.SetAway(false) }
		}}
	})
}

// TestStore_away: a store that is away answers no request, and leases end meanwhile.
func TestStore_away(t *testing.T) {
	s := memory.New()
	defer func() { require.NoError(t, s.Close()) }()
	lease, err := s.Grant(t.Context(), time.Millisecond)
	require.NoError(t, err)
	s.SetAway(true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Renew(ctx, lease), context.DeadlineExceeded)
	answer := make(chan error, 1)
	go func() { answer <- s.Renew(t.Context(), lease) }()
	s.SetAway(false)
	require.ErrorIs(t, <-answer, store.ErrLeaseGone)
}
