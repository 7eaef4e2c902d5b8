package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// gate is an output that takes nothing until it is opened.
type gate chan struct{}

func (g gate) Write(text []byte) (int, error) {
	<-g
	return len(text), nil
}

// What waits for an event continues when the event was printed, and not when it has happened.
func TestEventLog_await(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, opened := make(chan mcpvisor.Event), make(gate)
		l := newEventLog(newPrinter(opened), events)
		events <- mcpvisor.Event{Kind: mcpvisor.EventReady, Server: "fs", Epoch: 2}
		printed := false
		go func() {
			printed = l.await(context.Background(), "fs", mcpvisor.EventReady, 2) == nil
		}()
		synctest.Wait()
		require.False(t, printed)
		close(opened)
		synctest.Wait()
		require.True(t, printed)
		close(events)
		<-l.done
		require.ErrorContains(t, l.await(context.Background(), "fs", mcpvisor.EventReady, 3), "ended") // it will not come
	})
}
