package servers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// A start is waited for until the server's own timeouts have ended it.
func TestStartTimeout(t *testing.T) {
	c := Copies{Specs: map[string]mcpvisor.ServerSpec{"a": {}, "b": {Timeouts: mcpvisor.Timeouts{Start: 1, List: -1}}}}
	require.Equal(t, defaults.StartTimeout+defaults.ListTimeout+StartSlack, c.startTimeout())

	for _, name := range []string{"c", "d", "e", "f", "g", "h", "i"} { // the seventh waits for two others, one after the other
		c.Specs[name] = mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: "npx", Args: []string{"-y", name}}}
	}
	require.Equal(t, defaults.StartTimeout+defaults.ListTimeout+2*defaults.RunnerHold+StartSlack, c.startTimeout())
}

// A server is known not to answer if its last attempt has failed, or if this one takes long.
func TestIsMute(t *testing.T) {
	now := time.Now()
	failed, served := []mcpvisor.Incarnation{{}}, []mcpvisor.Incarnation{{}, {Served: true}}
	for name, c := range map[string]struct {
		history []mcpvisor.Incarnation
		since   time.Duration
		want    bool
	}{
		"first start":             {nil, time.Second, false},
		"first start, long":       {nil, usualStart + 1, true},
		"comes back":              {served, time.Second, false},
		"comes back, long":        {served, usualStart + 1, true},
		"never answered so far":   {failed, time.Second, true},
		"answered, and then died": {append(failed, served...), time.Second, false},
	} {
		require.Equal(t, c.want, isMute(mcpvisor.ServerStatus{History: c.history, Since: now.Add(-c.since)}, now), name)
	}
}
