package actors

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallStats_fit_each_other: every call that a status counts in Total is also in
// flight or has ended. The reader reads until it has seen many calls, because it may
// start before the callers do.
func TestCallStats_fit_each_other(t *testing.T) {
	const (
		minReads = 200_000
		minCalls = 2_000_000 // enough to see each wrong order of the counters
	)
	var s callStats
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.begin()
					s.end(true)
				}
			}
		})
	}
	for reads, total := 0, int64(0); reads < minReads || total < minCalls; reads++ {
		c := s.counts()
		if c.InFlight+c.Failed < c.Total {
			close(stop)
			callers.Wait()
			require.FailNow(t, "a call is missing", "%+v", c)
		}
		total = c.Total
	}
	close(stop)
	callers.Wait()
	c := s.counts()
	require.Zero(t, c.InFlight)
	require.Equal(t, c.Total, c.Failed)
}
