//go:build linux

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A server that announces a change and then ends takes the change with it: the catalog
// is that of the next incarnation.
func TestListChanged_lost_with_its_server(t *testing.T) {
	h := newSubscriber(t)
	h.register(mcpvisor.ServerSpec{Stdio: h.stdio(mcptest.Script{StateDir: t.TempDir(), Faults: []mcptest.Fault{
		{At: mcptest.StageAfter, Tool: "add_tool", Do: mcptest.ActionCloseStdout, Starts: []int{1}},
	}})}, "2026-07-28")
	require.EqualValues(t, 2, h.epoch())
}

func newSubscriber(t *testing.T) *subscriberFixture {
	t.Helper()
	w := newFixture(t)
	c, events := w.client(answeringHandlers()...)
	return &subscriberFixture{fixture: w, c: c, events: events, server: "notifier"}
}

// register registers the server, subscribes, and waits for the notifications.
func (h *subscriberFixture) register(spec mcpvisor.ServerSpec, version string) {
	h.t.Helper()
	spec.Name, spec.Policy = h.server, supervisor.Retry(5, 5*time.Millisecond)
	require.NoError(h.t, h.c.Register(h.within(), spec))
	require.NoError(h.t, h.c.Subscribe(h.within(), h.server, resourceURI))
	require.NoError(h.t, h.c.SetLoggingLevel(h.within(), h.server, "info"))
	st, ok := h.c.ServerStatus(h.server)
	require.True(h.t, ok)
	require.Equal(h.t, version, st.Session.ProtocolVersion)
	h.requireNotified()
}
