// Package simulation plays random schedules of calls and faults against the whole stack in virtual time: a
// facade.Client with a journal, its gateway over HTTP, and scripted servers in memory and over HTTP, in one
// process and without sockets (testing/synctest).
//
//   - A schedule is made from a seed ([schedule]): calls with and without keys, tasks, questions, clients of the
//     gateway of four versions and two principals, and faults: servers that die at a chosen point of a call, stop,
//     refuse to start or forget their sessions, restarts, reloads, profiles that change, a journal that fails, and
//     the end of the host.
//   - One world in three has groups and an order, and one in three a lock file and rules: tools drift, rules change, and persons
//     approve, refuse, think and panic.
//   - Servers write what they execute into a ledger, callers keep what they were told. [world.judge] compares
//     the two. It shares no code with the product.
//   - A failure prints its seed and the events that still fail, as few as the search finds. Goroutines are not part of the
//     schedule: run the seed several times.
//
// It does not see pipes, processes, the kernel, real disks and schedulers.
//
//	go test ./test/simulation -simulation.seeds 2000 -simulation.seed 1000
//	go test ./test/simulation -run 'TestSimulation/17$' -simulation.seed 17 -simulation.seeds 1 -simulation.log
package simulation
