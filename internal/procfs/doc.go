// Package procfs reads what Linux shows of processes below /proc. On other systems it is empty.
//
// An id can be given to another process as soon as its owner is reaped. An id and [Stat.Start] name one
// process.
package procfs
