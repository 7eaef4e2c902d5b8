package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestAnHeirIsDeadBeforeTheDeathIsSeen(t *testing.T) {
	for range 2000 {
		process, session := newLifeline(), newLifeline()
		process.bequeath(session)
		seen := make(chan *supervisor.Cause, 1)
		go func() {
			<-process.Dead()
			seen <- session.Cause()
		}()
		cause := &supervisor.Cause{Kind: supervisor.CauseExit}
		require.True(t, process.die(cause))
		require.Same(t, cause, <-seen)
	}
}

func TestAnHeirOfTheDeadDiesAtOnce(t *testing.T) {
	process, session := newLifeline(), newLifeline()
	cause := &supervisor.Cause{Kind: supervisor.CauseExit}
	process.die(cause)
	process.bequeath(session)
	require.Same(t, cause, session.Cause())
	require.False(t, session.die(&supervisor.Cause{Kind: supervisor.CauseProbe}))
}
