package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestWindowCountsOnlyRecentEnds(t *testing.T) {
	start := time.Unix(1000, 0)
	twoInTen := supervisor.Intensity{Restarts: 2, Window: 10 * time.Second}
	for _, c := range []struct {
		name string
		in   supervisor.Intensity
		ends []time.Duration // since start
		want []bool
	}{
		{"no bound", supervisor.Intensity{}, []time.Duration{0, 0, 0, 0}, []bool{false, false, false, false}},
		{"half a bound", supervisor.Intensity{Restarts: 1}, []time.Duration{0, 0, 0}, []bool{false, false, false}},
		{"the third in ten seconds", twoInTen, []time.Duration{0, 1e9, 2e9}, []bool{false, false, true}},
		{"all at once", twoInTen, []time.Duration{0, 0, 0}, []bool{false, false, true}},
		{"just inside", twoInTen, []time.Duration{0, 1e9, 10e9 - 1}, []bool{false, false, true}},
		{"the first is ten seconds old", twoInTen, []time.Duration{0, 1e9, 10e9}, []bool{false, false, false}},
		{"many, then few", twoInTen, []time.Duration{0, 0, 0, 0, 10e9, 11e9, 12e9}, []bool{false, false, true, true, false, false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w window
			for i, d := range c.ends {
				require.Equal(t, c.want[i], w.exceeded(start.Add(d), c.in), "end %d", i)
			}
		})
	}
}

func TestWindowReset(t *testing.T) {
	var w window
	one := supervisor.Intensity{Restarts: 1, Window: time.Hour}
	now := time.Unix(1000, 0)
	require.False(t, w.exceeded(now, one))
	require.True(t, w.exceeded(now, one))
	w.reset()
	require.False(t, w.exceeded(now, one))
}

// The window remembers a bounded number of ends, and gives the same result as counting
// them all.
func TestWindowIsBoundedAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		in := supervisor.Intensity{Restarts: rapid.IntRange(1, 4).Draw(t, "restarts"), Window: 10 * time.Second}
		now, all := time.Unix(1000, 0), []time.Time(nil)
		for range rapid.IntRange(1, 40).Draw(t, "ends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "gap")) * time.Second)
			all = append(all, now)
			inside := 0
			for _, e := range all {
				if e.After(now.Add(-in.Window)) {
					inside++
				}
			}
			require.Equal(t, inside > in.Restarts, w.full(now, in), "full and exceeded agree")
			require.Equal(t, inside > in.Restarts, w.exceeded(now, in))
			require.LessOrEqual(t, len(w.ends), in.Restarts+1)
		}
	})
}
