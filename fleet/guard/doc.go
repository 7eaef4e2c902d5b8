// Package guard is not part of the stable API. It ends the exclusive servers of a node in time,
// whatever happens to the node. A lease says until when a node may run them. The node ends them itself when it loses its lease, but a node
// that was stopped (SIGSTOP, a debugger, a frozen container) cannot, and its servers continue. So a
// second process, the guard, watches the same deadline:
//
//	the deadline passes     the guard kills the servers, and whatever of them appears later
//	the node dies           the guard kills the servers, waits until all are gone, then gives the
//	                        lease back, so that another node need not wait for its end
//	the node ends           it ends its servers and closes the guard, which exits
//	the guard dies or hangs the node starts another one, which takes over; if that does not
//	                        succeed within a second, the node is told to fence itself
//
// # Which processes
//
// The guard finds a server and its descendants by the entry of [Guard.Env], and by the process that the node has
// named ([Guard.Hold]). docs/fleet.md says which ones it does not find:
// https://github.com/mcpvisor/mcpvisor/blob/main/docs/fleet.md#the-guard
//
// The system can give the id of a process that has ended to another one. So the guard signals only processes
// that it holds by a pidfd, and groups whose leader it holds.
//
// # The process
//
// The guard is the program of the node, started again; the program calls [Main] first of all. It
// has a session of its own, so that signals to the group of the node do not reach it. Linux only:
// elsewhere [Start] fails with [ErrUnsupported].
package guard
