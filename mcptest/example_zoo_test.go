package mcptest_test

import (
	"fmt"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A client is tried against every server of the zoo. Each that can run in this
// process is also there as a goroutine; the binary must call Main first for
// the others.
func ExampleMisbehaviours() {
	stages := map[string]int{}
	for _, m := range mcptest.Misbehaviours() {
		stages[m.Stage()]++
	}
	fmt.Println("ways to fail a call:", stages["call"] > 20)

	m, ok := mcptest.MisbehaviourNamed("call/half-line")
	fmt.Println(ok, m.About)
	_, ok = m.InMemory()
	fmt.Println("in memory:", ok)
	// Output:
	// ways to fail a call: true
	// true Ends the line in the middle of the answer and goes on.
	// in memory: true
}
