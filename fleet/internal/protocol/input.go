package protocol

import "github.com/mcpvisor/mcpvisor/fleet/store"

// InputKind says what has happened.
type InputKind int

const (
	// InputTick: time has passed; see [Node.Due].
	InputTick InputKind = iota
	// InputGranted answers EffectGrant. Lease is set.
	InputGranted
	// InputRenewed answers EffectRenew.
	InputRenewed
	// InputLeaseGone answers EffectRenew or EffectCommit: the lease has ended.
	InputLeaseGone
	// InputRead answers EffectRead. Snapshot is set.
	InputRead
	// InputCommitted answers EffectCommit. Result is set.
	InputCommitted
	// InputFailed answers any request that the store did not answer: its outcome is unknown. The
	// caller ends each request in a bounded time.
	InputFailed
	// InputBatch: a watch has yielded Batch. Watch is set.
	InputBatch
	// InputWatchEnded: a watch has ended. Watch is set, and Compacted if its events are gone.
	InputWatchEnded
	// InputEnded: the server of Name and Epoch has ended, and nothing of it is left.
	InputEnded
	// InputFence: the life is over now, because there is no guard that would end it.
	InputFence
	// InputRefuse: this node cannot run the server of Name, or, unless Refuses, it can again.
	InputRefuse
	// InputDrain: hand everything over, and take nothing more.
	InputDrain
	// InputLeave: drain, then give the lease back and do nothing more.
	InputLeave
)

// Input is one thing that has happened. Only the fields that its kind names are set.
type Input struct {
	Kind      InputKind
	Request   uint64 // of the effect that is answered
	Watch     uint64 // of the EffectWatch
	Lease     store.Lease
	Snapshot  store.Snapshot
	Result    store.Result
	Batch     store.Batch
	Compacted bool
	Name      string
	Epoch     uint64
	Refuses   bool
}
