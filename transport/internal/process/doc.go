// Package process starts and ends the operating system processes of stdio
// servers. It knows nothing of MCP: it hands out three streams and reports how a
// process ended.
//
// [Start] returns a [Child]. Its life has four steps:
//
//	Start      spawn in a process group of its own; tag it (Linux)
//	Exited     the exit is known, and its group has been killed
//	Terminate  close stdin, then SIGTERM, then SIGKILL to the group
//	Release    close the pipes; kill what has left the group; reap
//
// # What a server started ends with it
//
// A process group is not enough: one call of setsid(2) leaves it. On Linux every
// server therefore carries a process tag (tag_linux.go), which its descendants
// inherit. After the exit, procScanner searches /proc for the tag and kills what
// carries it. It reads the processes that have come since the start (procList). On other systems only the group (Unix) or the job object (Windows)
// is ended.
//
// When this process itself is killed, its servers die by PR_SET_PDEATHSIG, and
// the watchdog, a shell that outlives this process for a moment, kills the rest.
//
// # Process ids
//
// A process id can be given to another process as soon as its owner is reaped. So
// nothing here signals a bare number: a server keeps its number because it stays
// a zombie until everything is ended, and any other process is held by a pidfd
// while its tag is read again (pidfd_open(2)).
//
// # Where to start reading
//
// This package is large because it ends processes on three systems, and everything it
// does rests on one fact that must not leave it: whose process id is still held.
//
// child.go is the life of one server. The state that all servers of this process
// share is in four variables: parentThreads, hostWatchdog, procTable and
// descriptors. Each guards itself with a mutex.
package process
