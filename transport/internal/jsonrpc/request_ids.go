package jsonrpc

import "sync/atomic"

// Request ids of this package are FirstID to EndID-1. The progress token of a request is
// its id.
//
// The go-sdk counts its ids from 1 and shares the session, so the ranges must not meet. The
// ids fit into a signed 32-bit integer, because some servers store them as one: the
// official Rust SDK before 0.6.3 truncates larger ids in its answers.
const (
	FirstID = int64(1) << 30
	EndID   = int64(1) << 31
)

// RequestIDs assigns the request ids of one session. They count up and wrap around: after
// EndID-1 comes FirstID. Safe for concurrent use.
type RequestIDs struct{ assigned atomic.Int64 }

// Last returns the id that was assigned last.
func (r *RequestIDs) Last() int64 { return FirstID + r.assigned.Load()%(EndID-FirstID) }

// Skip moves the counter so that the next left ids are new and the id after them wraps
// around. Only tests call it.
func (r *RequestIDs) Skip(left int64) { r.assigned.Store(EndID - FirstID - 1 - left) }

// Next returns the next id. used is true after the ids have wrapped around: then the caller
// must check that no request in flight has the id.
func (r *RequestIDs) Next() (id int64, used bool) {
	n := r.assigned.Add(1)
	return FirstID + n%(EndID-FirstID), n >= EndID-FirstID
}
