package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestStateLiveAndGlyph(t *testing.T) {
	want := map[supervisor.State]struct {
		live  bool
		glyph string
	}{
		supervisor.StateConnecting:   {true, "◐"},
		supervisor.StateDiscovering:  {true, "◐"},
		supervisor.StateReady:        {true, "●"},
		supervisor.StateClosing:      {true, "◌"},
		supervisor.StateBackoff:      {false, "↻"},
		supervisor.StateParked:       {false, "◷"},
		supervisor.StateUnauthorized: {false, "◇"},
		supervisor.StateEvicted:      {false, "✗"},
		supervisor.StateStopping:     {true, "◌"},
		supervisor.StateStopped:      {false, "○"},
	}
	require.Len(t, supervisor.States(), len(want))
	for _, s := range supervisor.States() {
		require.Contains(t, want, s)
		require.Equal(t, want[s].live, s.Live(), "%s", s)
		require.Equal(t, want[s].glyph, s.Glyph(), "%s", s)
	}
	require.False(t, supervisor.StateNew.Live())
	require.Equal(t, "○", supervisor.StateNew.Glyph())
}
