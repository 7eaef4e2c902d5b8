// Package chaos is not part of the stable API. It makes storms: it kills, stops, floods and restarts MCP servers while their
// read-only tools are called, and says how each server behaved. `mcpvisor chaos` is this
// package on a command line.
//
// [Run] starts copies of servers in a client of its own, and gives a verdict on each. [Inject]
// injects the same faults into the servers of a client that exists, while a test of a service
// uses that client and checks what the service does.
//
// Everything is bounded: the duration, the calls at a time, the wait for a server that does
// not return. The seed decides which faults happen, in which order and after which pauses; the
// scheduler decides what they meet. So a seed repeats a storm, and not each of its moments.
//
// Processes are stopped on Unix systems, and searched for what they leave behind on Linux.
package chaos
