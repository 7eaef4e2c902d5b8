package supervisor_test

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func ExampleRetry() {
	p := supervisor.Retry(3, 500*time.Millisecond,
		supervisor.WithStableAfter(30*time.Second), // ready for that long: the budget is reset
		supervisor.WithParking(10*time.Minute),     // budget spent: try again at this interval, do not evict
	)
	fmt.Println(p)
	fmt.Println(supervisor.NoRetry())

	p.Jitter = 2
	fmt.Println(p.Validate())
	// Output:
	// retry 3×, 500ms doubling, then every 10m0s
	// no retry
	// retry policy: Jitter is 2; it must lie between 0 and 1
}

func ExamplePolicy_Delay() {
	p := supervisor.Retry(6, 500*time.Millisecond, supervisor.WithMaxDelay(10*time.Second))
	var delays []time.Duration
	for attempt := 1; attempt <= p.MaxAttempts; attempt++ {
		delays = append(delays, p.Delay(attempt, 0))
	}
	fmt.Println(delays)

	// Spread over ±20 %, for many hosts that share one server.
	p.Jitter = 0.2
	fmt.Println(p.Delay(2, 0), p.Delay(2, 0.5), p.Delay(2, 0.75))
	// Output:
	// [500ms 1s 2s 4s 8s 10s]
	// 800ms 1s 1.1s
}
