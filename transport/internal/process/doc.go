// Package process starts and ends the operating system processes of stdio servers. It knows
// nothing of MCP: it hands out three streams and says how a process ended.
//
// [Start] returns a [Child]. Its life has four steps:
//
//	Start      spawn in a process group of its own
//	Exited     the exit is known, and its group has been killed
//	Terminate  close stdin, then SIGTERM, then SIGKILL to the group
//	Release    close the pipes; end what has left the group; reap
//
// # What a server started ends with it
//
// Its group is killed with it: a process group on Unix, a job object on Windows. One call
// of setsid(2) leaves a process group. On Linux package descendants therefore follows
// everything that a server starts. When this process itself is killed, the kernel kills its
// servers (PR_SET_PDEATHSIG, parent_thread_linux.go).
//
// # Process ids
//
// A process id can be given to another process as soon as its owner is reaped. So a server
// is signalled only while it is not reaped: [Child] decides when that is.
//
// # Where to start reading
//
// child.go first: the life of one server, with the fields and who owns them. Then start.go:
// what a command gets, and why it could not be started; stderr.go; and group_linux.go, or
// the file of another system. process.go has what sessions see of all this.
package process
