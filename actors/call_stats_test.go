package actors

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallStats_fit_each_other: a status never shows a call among all calls that is
// neither in flight nor ended.
func TestCallStats_fit_each_other(t *testing.T) {
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
	for range 200_000 {
		if c := s.counts(); c.InFlight+c.Failed < c.Total {
			close(stop)
			callers.Wait()
			require.FailNow(t, "a call is missing", "%+v", c)
		}
	}
	close(stop)
	callers.Wait()
	c := s.counts()
	require.Zero(t, c.InFlight)
	require.Equal(t, c.Total, c.Failed)
}
