package supervisor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestStatesAndTheirMarks(t *testing.T) {
	want := map[supervisor.State]struct {
		live  bool
		glyph string
	}{
		supervisor.Connecting:   {true, "◐"},
		supervisor.Discovering:  {true, "◐"},
		supervisor.Ready:        {true, "●"},
		supervisor.Closing:      {true, "◌"},
		supervisor.Backoff:      {false, "↻"},
		supervisor.Parked:       {false, "◷"},
		supervisor.Unauthorized: {false, "◇"},
		supervisor.Evicted:      {false, "✗"},
		supervisor.Stopping:     {true, "◌"},
		supervisor.Stopped:      {false, "○"},
	}
	require.Len(t, supervisor.States(), len(want))
	for _, s := range supervisor.States() {
		require.Contains(t, want, s)
		require.Equal(t, want[s].live, s.Live(), "%s", s)
		require.Equal(t, want[s].glyph, s.Glyph(), "%s", s)
	}
	require.False(t, supervisor.New.Live())
	require.Equal(t, "○", supervisor.New.Glyph())
}
