// Package poll watches the pipes and the exits of all servers in one goroutine. A goroutine
// for each of them costs more than all else that an idle server needs.
//
// It works on Linux (epoll(7)). Elsewhere nothing is watched, and each pipe has a goroutine.
package poll

// Shared watches what is readable rarely: the exits of servers, and the stdout of those that
// have nothing to answer.
var Shared Poller
