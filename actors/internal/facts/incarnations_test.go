package facts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The counts of an incarnation stay when it is gone, and count once.
func TestIncarnations(t *testing.T) {
	var i Incarnations
	var first, second mcpvisor.Discarded
	totals := func() (t mcpvisor.Totals) {
		i.AddTo(&t)
		return t
	}
	i.Started(1, func() mcpvisor.Discarded { return first })
	i.Started(2, func() mcpvisor.Discarded { return second })
	first.Unmatched, second.Malformed, second.Unmatched = 2, 3, 1
	require.Equal(t, mcpvisor.Totals{Starts: 2, Discarded: mcpvisor.Discarded{Unmatched: 3, Malformed: 3}}, totals())
	i.Ended(supervisor.CauseExit)
	first.Unmatched = 4 // after its end
	i.Released(1)
	first.Unmatched = 100 // after its release: not looked at any more
	i.Released(1)
	want := mcpvisor.Totals{Starts: 2, Ends: map[supervisor.CauseKind]int64{supervisor.CauseExit: 1},
		Discarded: mcpvisor.Discarded{Unmatched: 5, Malformed: 3}}
	require.Equal(t, want, totals())
	totals().Ends[supervisor.CauseExit] = 9
	require.Equal(t, want, totals(), "the map is a copy")
}
