package facts

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

func TestTools(t *testing.T) {
	var tools Tools
	var room Room
	require.Nil(t, tools.Find("a"))
	require.Nil(t, tools.Stats("s"))
	a := tools.Of("a", &room)
	require.Same(t, a, tools.Of("a", &room))
	require.Same(t, a, tools.Find("a"))
	for _, r := range []mcpvisor.CallRecord{
		{Took: time.Millisecond},
		{Took: 3 * time.Millisecond, ToolError: true},
		{Took: time.Second, Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeUnknown},
		{Took: time.Second, Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered},
		{Took: time.Second, Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeNotSent},
	} {
		a.Add(&r)
	}
	tools.Of("b", &room)
	stats := tools.Stats("s")
	require.Len(t, stats, 2)
	require.Equal(t, "s/b", stats[1].Name)
	got := stats[0]
	require.Equal(t, 2*time.Second+4*time.Millisecond, got.Duration.Sum)
	require.EqualValues(t, 4, got.Duration.Count, "a refused call has no duration")
	require.InEpsilon(t, time.Second, got.Duration.Quantile(0.99), 0.07)
	got.Duration = mcpvisor.Histogram{}
	require.Equal(t, mcpvisor.ToolStats{Server: "s", Name: "s/a", OriginalName: "a", Calls: 4, ToolErrors: 1, Unknown: 1, Refused: 1,
		Failed: map[mcpvisor.ErrorKind]int64{mcpvisor.KindCrashed: 1, mcpvisor.KindRPC: 1}}, got)
}

// Beyond the limit of all registrations together, the tools of one share an entry.
func TestTools_other(t *testing.T) {
	var first, second Tools
	var room Room
	for i := range retention.ToolStats {
		first.Of(fmt.Sprint("tool-", i), &room)
	}
	other := second.Of("x", &room)
	require.Equal(t, mcpvisor.OtherTools, other.Name)
	require.Same(t, other, second.Of("y", &room))
	require.Equal(t, mcpvisor.OtherTools, first.Of("z", &room).Name)
	require.Len(t, first.Stats("s"), retention.ToolStats+1)
	require.Equal(t, mcpvisor.OtherTools, second.Stats("s")[0].Name)

	first.Release(&room)
	require.Zero(t, room.used.Load())
	require.Equal(t, "w", second.Of("w", &room).Name, "the places are free again")
	require.Equal(t, mcpvisor.OtherTools, first.Of("late", &room).Name, "a call that ends after its registration takes no place")
}

func TestTools_concurrent(t *testing.T) {
	var tools Tools
	var room Room
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				tools.Of(fmt.Sprint(i%50), &room).Add(&mcpvisor.CallRecord{Took: time.Microsecond})
			}
		})
	}
	wg.Wait()
	stats := tools.Stats("s")
	require.Len(t, stats, 50)
	require.EqualValues(t, 50, room.used.Load())
	for _, s := range stats {
		require.EqualValues(t, 80, s.Calls)
	}
}

// Every kind has a place of its own.
func TestKindCounts(t *testing.T) {
	require.LessOrEqual(t, len(kinds), maxKinds, "raise maxKinds")
	var c KindCounts
	require.Nil(t, c.Counts())
	want := map[mcpvisor.ErrorKind]int64{}
	for i, k := range mcpvisor.ErrorKinds() {
		for range i + 1 {
			c.Add(k)
		}
		want[k] = int64(i + 1)
	}
	require.Equal(t, want, c.Counts())
	c.Add("no kind")
	require.EqualValues(t, 1, c.Counts()[""])
}

func BenchmarkTool_Add(b *testing.B) {
	var tools Tools
	var room Room
	tools.Of("echo", &room)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		record := mcpvisor.CallRecord{Took: 50 * time.Microsecond}
		for p.Next() {
			tools.Find("echo").Add(&record)
		}
	})
}
