package hostile_test

import (
	"fmt"

	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// A test can run every misbehaviour. Most run as a goroutine; the others need a
// process, for which TestMain must call mcptest.Main first.
func ExampleMisbehaviours() {
	stages := map[string]int{}
	for _, m := range hostile.Misbehaviours() {
		stages[m.Stage()]++
	}
	fmt.Println("ways to fail a call:", stages["call"] > 20)

	m, ok := hostile.MisbehaviourNamed("call/half-line")
	fmt.Println(ok, m.About)
	_, ok = m.InMemory()
	fmt.Println("in memory:", ok)
	// Output:
	// ways to fail a call: true
	// true Breaks the line in the middle of the answer and continues to serve; the call stays unanswered.
	// in memory: true
}
