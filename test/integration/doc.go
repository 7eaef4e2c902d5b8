// Package integration holds the chaos tests. They run real processes, signals and seeded
// faults against a whole [facade.Client], and check invariants that no fault may break:
//
//   - Every call returns once, in time, and runs at most once: exactly once if it
//     succeeded, never if its error says that nothing was sent.
//   - Every result and error comes from an incarnation that was ready during the call.
//   - After an unregistration there is no event, no result and no process of the server.
//   - The registry shows whole catalogs or none. Without faults it shows exactly the
//     live sessions.
//   - Servers without injected faults are not affected.
//   - At the end there are no more processes, goroutines and descriptors than before.
//
// It also holds the tables of what a client must do with each hostile server of
// mcptest/hostile. The tests need Linux, where /proc shows what is left. A storm prints
// its seed when it fails:
//
//	go test -race ./test/integration -run Storm -chaos.seed=7 -chaos.duration=30s
package integration
