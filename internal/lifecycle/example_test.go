package lifecycle_test

import (
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A caller feeds inputs and carries out the effects. Here a queue takes the place of the
// servers: every dial fails, every end of a session succeeds, and timers fire at once, in
// virtual time.
func ExampleLifecycle_Step() {
	life := lifecycle.NewLifecycle(supervisor.Retry(2, time.Second), true, nil)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	refused := &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "connection refused"}

	queue := []lifecycle.Input{{Kind: lifecycle.InputRegister}}
	for len(queue) > 0 {
		ev := queue[0]
		queue = queue[1:]
		for _, do := range life.Step(now, ev) {
			switch do.Kind {
			case lifecycle.EffectDial:
				fmt.Println("dial epoch", do.Epoch)
				queue = append(queue, lifecycle.Input{Kind: lifecycle.InputFailed, Epoch: do.Epoch, Cause: refused})
			case lifecycle.EffectEndSession:
				queue = append(queue, lifecycle.Input{Kind: lifecycle.InputReleased, Epoch: do.Epoch})
			case lifecycle.EffectArmRetry:
				fmt.Println("wait", do.Delay, "before attempt", life.Attempt())
				now = now.Add(do.Delay)
				queue = append(queue, lifecycle.Input{Kind: lifecycle.InputTimer, Token: do.Token})
			case lifecycle.EffectAnnounceGone:
				fmt.Println("gone:", do.Cause)
			default:
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
