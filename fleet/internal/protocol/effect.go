package protocol

import (
	"encoding/json"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// EffectKind says what the caller must do.
type EffectKind int

const (
	// EffectGrant: ask for a lease of TTL. Request is answered.
	EffectGrant EffectKind = iota + 1
	// EffectRenew: renew Lease. Request is answered.
	EffectRenew
	// EffectRevoke: give Lease back, and repeat it until the store has answered. No answer is
	// expected.
	EffectRevoke
	// EffectRead: read everything. Request is answered.
	EffectRead
	// EffectCommit: commit Txn. Request is answered.
	EffectCommit
	// EffectWatch: watch everything after the revision After, in place of any former watch. Watch
	// is its number.
	EffectWatch
	// EffectDeadline: the life of Lease is in force until At, and the guard ends exclusive servers then.
	// Before any of them starts, the guard must know the deadline. 0: the life is over now.
	EffectDeadline
	// EffectStart: start the server of Name as Epoch, with Spec; if it is exclusive, only if the
	// deadline has not passed.
	EffectStart
	// EffectAdopt: the server of Name, which runs, has Epoch from now on.
	EffectAdopt
	// EffectEnd: end the server of Name and Epoch, and say InputEnded when nothing of it is left;
	// if Now, at once, otherwise after what is in flight, within a bounded time. It may follow
	// another EffectEnd that was not so urgent.
	EffectEnd
	// EffectSpec: the server of Name has the specification Record; nil: it no longer has one. It
	// comes before an EffectStart by this specification.
	EffectSpec
	// EffectGateway: the gateways of the fleet have the definition Gateway; nil: they no longer have
	// one. It comes before each EffectSpec that was applied with it, or later.
	EffectGateway
	// EffectPlace: Name has Place, and Owner is the record of its node; nil: the lease of its life
	// does not live. It comes when any of it has changed, and not when the own life is over
	// (EffectDeadline).
	EffectPlace
	// EffectDrained: the node has no name.
	EffectDrained
	// EffectLeft: the node has left; it needs no further input.
	EffectLeft
)

// Effect is one thing to do. Only the fields that its kind names are set.
type Effect struct {
	Kind    EffectKind
	Request uint64
	TTL     time.Duration
	Lease   store.Lease
	Txn     store.Txn
	Watch   uint64
	After   int64
	At      time.Duration
	Name    string
	Epoch   uint64
	Spec    placement.Spec
	Now     bool
	Record  *records.Spec
	Gateway json.RawMessage
	Place   placement.Place
	Owner   *placement.Node
}
