package facts

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

func TestRecentCalls(t *testing.T) {
	var r RecentCalls
	records, missed := r.After(0)
	require.Empty(t, records)
	require.Zero(t, missed)
	for i := range 3 {
		r.Add(&mcpvisor.CallRecord{ResultBytes: i})
	}
	records, missed = r.After(1)
	require.Zero(t, missed)
	require.Equal(t, []mcpvisor.CallRecord{{Seq: 2, ResultBytes: 1}, {Seq: 3, ResultBytes: 2}}, records)
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
		r.Add(&mcpvisor.CallRecord{})
	}
	records, missed := r.After(0)
	require.Len(t, records, limit)
	require.Zero(t, missed)
	for range 7 {
		r.Add(&mcpvisor.CallRecord{})
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
				r.Add(&mcpvisor.CallRecord{})
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
	record := &mcpvisor.CallRecord{}
	r.Add(record)
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.Add(record) }))
}

func BenchmarkRecentCalls(b *testing.B) {
	var r RecentCalls
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		record := mcpvisor.CallRecord{Server: "s", Method: "tools/call", Target: "echo"}
		for p.Next() {
			r.Add(&record)
		}
	})
}
