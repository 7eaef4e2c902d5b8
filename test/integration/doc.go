// Package integration holds the chaos tests: real processes, real signals and
// seeded faults against a whole [facade.Client], and one set of invariants
// that must hold whatever happened.
//
//   - Every call is answered once, in time, and ran at most once: exactly once
//     if it succeeded, never if its error says that nothing was sent.
//   - No result and no error comes from another incarnation than one that
//     served while the call was under way.
//   - Nothing comes after an unregistration: no event, no result, no process.
//   - The registry shows whole catalogs or none, and in quiet times exactly
//     the sessions that live.
//   - Servers without injected faults are not affected.
//   - At the end there are no more processes, goroutines and descriptors than before.
//
// The tests run on Linux, where /proc tells what is left. A storm prints its
// seed when it fails:
//
//	go test -race ./test/integration -run Storm -chaos.seed=7 -chaos.duration=30s
package integration
