// Package facts keeps what operators ask about the past: the calls that have ended, the
// durations and outcomes of each tool, and what became of the incarnations of a server.
//
// A call that ends changes a few counters and one slot of a ring. It takes no lock that
// other calls wait for, and allocates nothing.
package facts
