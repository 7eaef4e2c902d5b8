package stdio

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// TestDeadline: each request times out at its own deadline, never before, and at most
// SweepGrain later. The server is notified.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		timeouts := []time.Duration{time.Hour, time.Second, 3 * time.Second, time.Second + time.Millisecond, time.Millisecond, 0,
			3*time.Second - 1, 2 * time.Minute, time.Second, time.Nanosecond}
		type end struct {
			outcome
			after time.Duration
		}
		ends := make([]chan end, len(timeouts))
		for i, timeout := range timeouts {
			ends[i] = make(chan end, 1)
			start := time.Now()
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: timeout})
			go func() { ends[i] <- end{<-ended, time.Since(start)} }()
		}
		canceled := make(chan int64, len(timeouts))
		keep := make(chan int64, 1) // the id of the request without a deadline
		go func() {
			asked := 0
			open := map[int64]bool{}
			for asked < len(timeouts) || len(open) > 1 {
				m := p.readMessage()
				if m.Method == "m" {
					asked++
					open[m.ID] = true
					continue
				}
				var id int64
				_, _ = fmt.Sscanf(string(m.Params), `{"requestId":%d,"reason":"timed out"}`, &id)
				delete(open, id)
				canceled <- id
			}
			for id := range open {
				keep <- id
			}
		}()
		for i, timeout := range timeouts {
			if timeout == 0 {
				continue
			}
			got := <-ends[i]
			require.NotNil(t, got.err, "timeout %v", timeout)
			require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
			require.GreaterOrEqual(t, got.after, timeout)
			require.LessOrEqual(t, got.after, timeout+5*time.Millisecond, "timeout %v", timeout)
		}
		id := <-keep
		require.Len(t, canceled, len(timeouts)-1)
		require.Equal(t, 1, p.table.Open.Len())
		time.Sleep(24 * time.Hour)
		p.writeLine(`{"id":%d,"result":"at last"}`, id)
		require.Equal(t, outcome{result: `"at last"`}, (<-ends[5]).outcome)
		require.GreaterOrEqual(t, len(canceled), 1)
	})
}

// TestDeadline_of_an_unsent_request: with a server that does not read, a request times
// out unsent, and no cancellation is sent.
func TestDeadline_of_an_unsent_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.startRequest(t.Context(), transport.Request{Method: "first"})
		synctest.Wait() // its write blocks, because the server does not read
		start := time.Now()
		got := <-p.startRequest(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
		require.True(t, got.err.Retryable())

		m := p.readMessage()
		require.Equal(t, "first", m.Method)
		p.writeLine(`{"id":%d,"result":1}`, m.ID)
		require.Equal(t, outcome{result: "1"}, <-first)
		third := p.startRequest(t.Context(), transport.Request{Method: "third"})
		m = p.readMessage()
		require.Equal(t, "third", m.Method, "neither the second request nor its cancellation is sent")
		p.writeLine(`{"id":%d,"result":3}`, m.ID)
		require.Equal(t, outcome{result: "3"}, <-third)
	})
}

// TestDeadline_timer_stops_with_the_conn: no timer is left when the connection has
// ended.
func TestDeadline_timer_stops_with_the_conn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		start := time.Now()
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Hour})
		p.readMessage()
		time.Sleep(time.Minute)
		p.end(errEnded)
		got := <-ended
		require.Equal(t, mcpvisor.KindCrashed, got.err.Kind)
		require.Equal(t, time.Minute, time.Since(start))
		require.True(t, p.table.TimerStopped(), "the sweeper is stopped")
	})
}
