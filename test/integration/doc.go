// Package integration holds the chaos tests. They run real processes, signals and seeded
// faults against a whole [facade.Client], and check invariants that no fault may break:
//
//   - Every call returns once, in time, and runs at most once: exactly once if it
//     succeeded, never if its error says that nothing was sent.
//   - Every result and error comes from an incarnation that was ready during the call.
//   - After an unregistration there is no event, no result and no process of the server.
//   - The registry shows whole catalogs or none: of a ready server all four lists of its one
//     incarnation, compared by content, and of a server that is down nothing. Without faults
//     it shows exactly the live sessions.
//   - A policy that evicts or parks counts every attempt. Apply replaces what has changed, and
//     nothing else. Limits of calls in flight and queued hold.
//   - Servers without injected faults are not affected.
//   - At the end there are no more processes, goroutines and descriptors than before.
//
// It also holds the tables of what a client must do with each hostile server of
// test/hostile. The tests need Linux, where /proc shows what is left. A storm prints
// its seed when it fails:
//
//	go test -race ./test/integration -run Storm -chaos.seed=7 -chaos.duration=30s
//
// Package mcptest/chaos injects the faults. The script mutants checks the storm itself: it plants
// the bugs of testdata/mutants in copies of the tree, each of which a storm must find.
package integration
