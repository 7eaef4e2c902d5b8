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
// A server of a guarded node has the entry of [Guard.Env] in its environment, which its descendants
// inherit: the guard finds them all in /proc, wherever they have gone, and even those that the node
// had just started when it was stopped. Some programs overwrite their environment, so the node also
// names the process of each server ([Guard.Hold]), whose group is killed as well. All descendants
// of a process that was found are killed, too. A process that leaves the group, has no such ancestor, and
// has cleared its environment, is not found.
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
