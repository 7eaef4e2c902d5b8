// Package descendants finds and ends what a server has started, wherever that has gone.
// Only Linux shows enough for that: on other systems the package is empty, and a server
// ends with its process group or its job object (package process).
//
// A [Tracker] follows one server:
//
//	Start       start the server with a tag that its descendants inherit
//	TagAgain    tag what the server forked before it had the tag
//	AwaitGroup  wait until the group of a server that has exited holds no living process
//	Kill        find every process with the tag, wherever it has gone, and kill it
//	Reap        have the server reaped; its process id is free from then on
//
// # How a descendant is found
//
// A process leaves its group with one call of setsid(2), and its parent when that exits.
// So every server carries a tag in its environment and in its limits (tag_linux.go), which
// its descendants inherit. When the server has exited, a search reads the tags of all
// processes that have come since it was started (search_linux.go). What carries its tag is
// killed (kill_linux.go).
//
// When this process itself is killed, its servers die by PR_SET_PDEATHSIG (package
// process). A watchdog, which is a shell that outlives this process for a moment, kills
// what they have started (watchdog_linux.go).
//
// # Process ids
//
// A process id can be given to another process as soon as its owner is reaped. So nothing
// here signals a bare number: a server keeps its id because it stays a zombie until Reap,
// and any other process is held by a pidfd while its tag is read again (pidfd_open(2)).
//
// # Where to start reading
//
// tracker_linux.go first; then tag_linux.go, search_linux.go and kill_linux.go, in this
// order. proc_linux.go reads single files of /proc, and watchdog_linux.go stands alone.
//
// What all servers of this process share is in three variables: table, descriptors and
// hostWatchdog. Each has a mutex of its own.
package descendants
