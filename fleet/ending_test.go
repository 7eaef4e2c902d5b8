package fleet

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A session that is about to end says nothing of it before Dead is closed.
func TestEnding_cause_comes_with_Dead(t *testing.T) {
	e, why := newEnding(), &supervisor.Cause{Kind: supervisor.CauseRequested}
	e.dead.mu.Lock() // so that the end stops half-way
	ended := make(chan bool)
	go func() { ended <- e.end(why) }()
	for e.cause.Load() == nil {
		runtime.Gosched()
	}
	require.Nil(t, e.Cause())
	e.dead.mu.Unlock()
	require.True(t, <-ended)
	<-e.Dead()
	require.Same(t, why, e.Cause())
	require.False(t, e.end(&supervisor.Cause{}))
}
