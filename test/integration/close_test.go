//go:build linux

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestClose_concurrent(t *testing.T) {
	w := newFixture(t)
	c, events := w.client()
	stubborn := mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}}}
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "stubborn", Stdio: w.stdio(stubborn), Timeouts: shortShutdown}))
	inFlight := make(chan error, 1)
	go func() {
		_, err := c.CallTool(context.Background(), "stubborn/hang", nil)
		inFlight <- err
	}()
	waitUntil(w.within(), t, "the call is in flight", func() bool {
		st, _ := c.ServerStatus("stubborn")
		return st.Calls.InFlight == 1
	})

	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, c.Close(impatient), mcpvisor.ErrCanceled, "Close continues in the background")
	require.ErrorIs(t, <-inFlight, mcpvisor.ErrClosed)
	closed := make(chan error, 4)
	for range cap(closed) {
		go func() { closed <- c.Close(context.Background()) }()
	}
	for range cap(closed) {
		require.NoError(t, <-closed)
	}
	require.NoError(t, c.Close(context.Background()))
	w.requireNoProcess()
	<-events.ended

	require.Empty(t, c.Servers())
	require.Empty(t, c.Tools())
	_, err := c.CallTool(w.within(), "stubborn/echo", nil)
	require.ErrorIs(t, err, mcpvisor.ErrClosed)
	require.ErrorIs(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "late", InMemory: mcptest.InMemory(mcptest.Script{})}), mcpvisor.ErrClosed)
}

func TestUnregister_concurrent(t *testing.T) {
	w := newFixture(t)
	c, events := w.client()
	require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "s", Stdio: w.stdio(mcptest.Script{}), Policy: supervisor.Retry(3, time.Millisecond)}))
	ends := make(chan error, 4)
	for range cap(ends) {
		go func() { ends <- c.Unregister(context.Background(), "s") }()
	}
	done := 0
	for range cap(ends) {
		if err := <-ends; err == nil {
			done++
		} else {
			require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
		}
	}
	require.Positive(t, done)
	w.requireNoProcess()
	w.close(c)
	<-events.ended
	require.Equal(t, []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventReady,
		mcpvisor.EventDown, mcpvisor.EventUnregistered}, kinds(events.all()))
}
