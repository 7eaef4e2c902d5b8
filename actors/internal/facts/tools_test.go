package facts

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestTools(t *testing.T) {
	var tools Tools
	var room ToolRoom
	require.Nil(t, tools.Find("a"))
	require.Nil(t, tools.Stats("s"))
	a := tools.Of("a", &room)
	require.Same(t, a, tools.Of("a", &room))
	require.Same(t, a, tools.Find("a"))
	for _, r := range []monitor.CallRecord{
		{Took: time.Millisecond},
		{Took: 3 * time.Millisecond, ToolError: true},
		{Took: time.Second, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown},
		{Took: time.Second, Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered},
		{Took: time.Second, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent},
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
	got.Duration = monitor.Histogram{}
	require.Equal(t, monitor.ToolStats{Server: "s", Name: "s/a", OriginalName: "a", Calls: 4, ToolErrors: 1, Unknown: 1, Refused: 1,
		Failed: map[mcpvisor.ErrorKind]int64{mcpvisor.ErrCrashed: 1, mcpvisor.ErrRPC: 1}}, got)
}

// Beyond the limit of all registrations together, the tools of one share an entry.
func TestTools_other(t *testing.T) {
	var first, second Tools
	var room ToolRoom
	for i := range retention.ToolStats {
		first.Of(fmt.Sprint("tool-", i), &room)
	}
	other := second.Of("x", &room)
	require.Equal(t, monitor.OtherTools, other.Name)
	require.Same(t, other, second.Of("y", &room))
	require.Equal(t, monitor.OtherTools, first.Of("z", &room).Name)
	require.Len(t, first.Stats("s"), retention.ToolStats+1)
	require.Equal(t, monitor.OtherTools, second.Stats("s")[0].Name)

	first.Release(&room)
	require.Zero(t, room.used.Load())
	require.Equal(t, "w", second.Of("w", &room).Name, "the places are free again")
	require.Equal(t, monitor.OtherTools, first.Of("late", &room).Name, "a call that ends after its registration takes no place")
}

func TestTools_concurrent(t *testing.T) {
	var tools Tools
	var room ToolRoom
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				tools.Of(fmt.Sprint(i%50), &room).Add(&monitor.CallRecord{Took: time.Microsecond})
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnknownCalls(t *testing.T) {
	var u UnknownCalls
	require.Empty(t, u.Records())
	for _, seq := range []uint64{1, 3, 2} { // callers that end at the same time overtake each other
		u.Add(&monitor.CallRecord{Seq: seq})
	}
	require.Equal(t, []monitor.CallRecord{{Seq: 1}, {Seq: 2}, {Seq: 3}}, u.Records())
	for i := range retention.UnknownCalls {
		u.Add(&monitor.CallRecord{Seq: uint64(i + 4)})
	}
	records := u.Records()
	require.Len(t, records, retention.UnknownCalls)
	require.EqualValues(t, 4, records[0].Seq)
}

func TestRecentCalls(t *testing.T) {
	var r RecentCalls
	records, missed := r.After(0)
	require.Empty(t, records)
	require.Zero(t, missed)
	for i := range 3 {
		r.Add(&monitor.CallRecord{ResultBytes: i})
	}
	records, missed = r.After(1)
	require.Zero(t, missed)
	require.Equal(t, []monitor.CallRecord{{Seq: 2, ResultBytes: 1}, {Seq: 3, ResultBytes: 2}}, records)
	records, _ = r.After(3)
	require.Empty(t, records, "nothing is new")
	records, missed = r.After(99)
	require.Len(t, records, 3, "a number of another client counts as 0")
	require.Zero(t, missed)
	require.EqualValues(t, 3, r.Last())
}

func TestRecentCalls_overwritten(t *testing.T) {
	const limit = retention.Calls
	var r RecentCalls
	for range limit {
		r.Add(&monitor.CallRecord{})
	}
	records, missed := r.After(0)
	require.Len(t, records, limit)
	require.Zero(t, missed)
	for range 7 {
		r.Add(&monitor.CallRecord{})
	}
	records, missed = r.After(2)
	require.EqualValues(t, 5, missed)
	require.Len(t, records, limit)
	require.EqualValues(t, 8, records[0].Seq)
	require.EqualValues(t, limit+7, records[limit-1].Seq)
}

// A reader that continues after the last Seq that it has seen gets every record once, or
// learns that it was overwritten.
func TestRecentCalls_reader_loses_nothing(t *testing.T) {
	const writers, each = 4, 2000
	var r RecentCalls
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				r.Add(&monitor.CallRecord{})
			}
		})
	}
	var seen, last uint64
	for last < writers*each {
		records, missed := r.After(last)
		seen += missed
		last += missed
		for _, record := range records {
			require.Equal(t, last+1, record.Seq)
			last = record.Seq
			seen++
		}
	}
	wg.Wait()
	require.EqualValues(t, writers*each, seen)
}

func TestRecentCalls_allocates_once(t *testing.T) {
	var r RecentCalls
	record := &monitor.CallRecord{}
	r.Add(record)
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.Add(record) }))
}
