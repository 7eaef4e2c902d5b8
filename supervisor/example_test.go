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
	fmt.Println(supervisor.NoRetry)

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

// A caller feeds inputs and carries out the effects. Here a queue takes the place of the
// servers: every dial fails, every end of a session succeeds, and timers fire at once, in
// virtual time.
func ExampleLifecycle_Step() {
	life := supervisor.NewLifecycle(supervisor.Retry(2, time.Second), true, nil)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	refused := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "connection refused"}

	queue := []supervisor.Input{{Kind: supervisor.InputRegister}}
	for len(queue) > 0 {
		ev := queue[0]
		queue = queue[1:]
		for _, do := range life.Step(now, ev) {
			switch do.Kind {
			case supervisor.EffectDial:
				fmt.Println("dial epoch", do.Epoch)
				queue = append(queue, supervisor.Input{Kind: supervisor.InputFailed, Epoch: do.Epoch, Cause: refused})
			case supervisor.EffectEndSession:
				queue = append(queue, supervisor.Input{Kind: supervisor.InputReleased, Epoch: do.Epoch})
			case supervisor.EffectArmRetry:
				fmt.Println("wait", do.Delay, "before attempt", life.Attempt())
				now = now.Add(do.Delay)
				queue = append(queue, supervisor.Input{Kind: supervisor.InputTimer, Token: do.Token})
			case supervisor.EffectAnnounceGone:
				fmt.Println("gone:", do.Cause)
			}
		}
	}
	fmt.Println(life.State(), "after", life.Restarts(), "restarts")
	// Output:
	// dial epoch 1
	// wait 1s before attempt 1
	// dial epoch 2
	// wait 2s before attempt 2
	// dial epoch 3
	// gone: connection refused
	// evicted after 2 restarts
}
