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
			_, err := l.await(context.Background(), func(ev mcpvisor.Event) bool { return ev.Epoch == 2 })
			printed = err == nil
		}()
		synctest.Wait()
		require.False(t, printed)
		close(opened)
		synctest.Wait()
		require.True(t, printed)
		close(events)
		<-l.done
		_, err := l.await(context.Background(), func(ev mcpvisor.Event) bool { return ev.Epoch == 3 }) // it will not come
		require.ErrorContains(t, err, "ended")
	})
}
