package jsonrpc

import "sync/atomic"

// The ids of the call lane are the numbers from laneBase up to, and without,
// laneEnd. A progress token is the id of its request.
//
// They are far from those of the go-sdk, which count from 1, so that both can
// share one session. They fit into 32 signed bits, because some servers store
// ids in that type: the official Rust SDK before 0.6.3 answers a larger id with
// another one.
const (
	FirstID = int64(1) << 30
	EndID   = int64(1) << 31
)

// RequestIDs assigns the ids of one session. They count up, and start again at
// laneBase when all have been used. Safe for concurrent use.
type RequestIDs struct{ assigned atomic.Int64 }

// Last is the id that was assigned last.
func (r *RequestIDs) Last() int64 { return FirstID + r.assigned.Load()%(EndID-FirstID) }

// Skip leaves out ids, so that left of them are assigned before they start again.
func (r *RequestIDs) Skip(left int64) { r.assigned.Store(EndID - FirstID - 1 - left) }

// Next returns an id. If used is true, an earlier request of the session had it
// too; then the caller must make sure that no request in flight has it.
func (r *RequestIDs) Next() (id int64, used bool) {
	n := r.assigned.Add(1)
	return FirstID + n%(EndID-FirstID), n >= EndID-FirstID
}
