package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A goroutine that sees the process ended must see the session ended, too.
func TestLifetime_PropagateTo_parent_ends_first(t *testing.T) {
	for range 2000 {
		process, session := NewLifetime(), NewLifetime()
		process.PropagateTo(session)
		seen := make(chan *supervisor.Cause, 1)
		go func() {
			<-process.Dead()
			seen <- session.Cause()
		}()
		cause := &supervisor.Cause{Kind: supervisor.CauseExit}
		require.True(t, process.End(cause))
		require.Same(t, cause, <-seen)
	}
}

func TestLifetime_PropagateTo_after_the_end(t *testing.T) {
	process, session := NewLifetime(), NewLifetime()
	cause := &supervisor.Cause{Kind: supervisor.CauseExit}
	process.End(cause)
	process.PropagateTo(session)
	require.Same(t, cause, session.Cause())
	require.False(t, session.End(&supervisor.Cause{Kind: supervisor.CauseProbe}))
}
