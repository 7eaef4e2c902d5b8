package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/internal/storetest/kv"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// bench is one node with a store that answers at once, unless hold says otherwise.
type bench struct {
	t      *testing.T
	node   *protocol.Node
	engine *kv.Engine
	now    time.Duration
	sent   int64 // of the watch
	watch  uint64
	hold   func(protocol.Effect) bool
	held   []protocol.Effect
	// seen are the effects that the store does not answer, as text; told are those that say what has
	// changed.
	seen, told []string
	order      []string // of both
}

func newBench(t *testing.T, specs map[string]placement.Spec) *bench {
	b := &bench{t: t, engine: kv.New(), now: time.Hour, hold: func(protocol.Effect) bool { return false }}
	b.node = protocol.New(protocol.Config{Node: placement.Node{ID: "a", Address: "10.0.0.1:1"}})
	for name, s := range specs {
		b.put(records.SpecKey(name), records.Encode(records.Spec{Spec: s}, nil))
	}
	return b
}

func (b *bench) put(key string, value []byte) {
	_, err := b.engine.Commit(store.Txn{Then: []store.Change{store.Put(key, value)}})
	require.NoError(b.t, err)
}

func (b *bench) step(in protocol.Input) {
	for queue := []protocol.Input{in}; len(queue) > 0; queue = queue[1:] {
		for _, e := range b.node.Step(b.now, queue[0]) {
			if b.hold(e) {
				b.held = append(b.held, e)
			} else if answer, ok := b.answer(e); ok {
				queue = append(queue, answer)
			}
		}
	}
}

func (b *bench) answer(e protocol.Effect) (in protocol.Input, ok bool) {
	in.Request = e.Request
	switch e.Kind {
	case protocol.EffectGrant:
		in.Kind, in.Lease = protocol.InputGranted, b.engine.Grant(b.now, e.TTL)
	case protocol.EffectRenew:
		in.Kind = protocol.InputRenewed
		if !b.engine.Renew(b.now, e.Lease) {
			in.Kind = protocol.InputLeaseGone
		}
	case protocol.EffectRead:
		in.Kind, in.Snapshot = protocol.InputRead, b.engine.Read("")
	case protocol.EffectCommit:
		result, err := b.engine.Commit(e.Txn)
		in.Kind, in.Result = protocol.InputCommitted, result
		if err != nil {
			in.Kind = protocol.InputLeaseGone
		}
	default:
		b.note(e)
		return in, false
	}
	return in, true
}

func (b *bench) note(e protocol.Effect) {
	switch e.Kind {
	case protocol.EffectWatch:
		b.watch, b.sent = e.Watch, e.After
		b.seen = append(b.seen, "watch")
	case protocol.EffectRevoke:
		b.engine.Revoke(e.Lease)
		b.seen = append(b.seen, "revoke")
	case protocol.EffectStart:
		b.order = append(b.order, "start "+e.Name)
		b.seen = append(b.seen, fmt.Sprint("start ", e.Name, " ", e.Epoch))
	case protocol.EffectAdopt:
		b.seen = append(b.seen, fmt.Sprint("adopt ", e.Name, " ", e.Epoch))
	case protocol.EffectEnd:
		b.seen = append(b.seen, fmt.Sprint("end ", e.Name, " ", e.Epoch, " ", e.Now))
	case protocol.EffectSpec:
		if b.order = append(b.order, "spec "+e.Name); e.Record == nil {
			b.told = append(b.told, "no spec "+e.Name)
		} else {
			b.told = append(b.told, fmt.Sprintf("spec %s %s", e.Name, e.Record.Definition))
		}
	case protocol.EffectGateway:
		b.order = append(b.order, "gateway")
		b.told = append(b.told, fmt.Sprintf("gateway %s", e.Gateway))
	case protocol.EffectPlace:
		b.order = append(b.order, "place "+e.Name)
		told := fmt.Sprintf("place %s %d on %s/%s", e.Name, e.Place.Epoch, e.Place.Node, e.Place.Life)
		if e.Owner != nil {
			told += " at " + e.Owner.Address
		}
		b.told = append(b.told, told)
	case protocol.EffectDrained:
		b.seen = append(b.seen, "drained")
	case protocol.EffectLeft:
		b.seen = append(b.seen, "left")
	case protocol.EffectDeadline:
		if e.At == 0 {
			b.seen = append(b.seen, "over")
		}
	default:
	}
}

// events lets the watch yield what it has.
func (b *bench) events() {
	batch, err := b.engine.Since("", b.sent)
	require.NoError(b.t, err)
	b.sent = batch.Revision
	b.step(protocol.Input{Kind: protocol.InputBatch, Watch: b.watch, Batch: batch})
}

// run lets time pass in steps, with events after each.
func (b *bench) run(lasts time.Duration) {
	for until := b.now + lasts; b.now < until; {
		b.now += 100 * time.Millisecond
		b.engine.Expire(b.now)
		b.step(protocol.Input{})
		b.events()
	}
}

// saw returns what the node did, and forgets it.
func (b *bench) saw() []string {
	seen := b.seen
	b.seen = nil
	return seen
}

func (b *bench) ended(name string, epoch uint64) {
	b.step(protocol.Input{Kind: protocol.InputEnded, Name: name, Epoch: epoch})
	b.events()
}

var twoServers = map[string]placement.Spec{"lock": {Exclusive: true}, "shared": {}}

func joined(t *testing.T, specs map[string]placement.Spec) *bench {
	b := newBench(t, specs)
	b.step(protocol.Input{})
	require.Equal(t, protocol.StateMember, b.node.State())
	b.run(2 * time.Second)
	return b
}

func isRenewal(e protocol.Effect) bool { return e.Kind == protocol.EffectRenew }

func TestNode_joinsAndStarts(t *testing.T) {
	b := joined(t, twoServers)
	require.Equal(t, []string{"watch", "start lock 1", "start shared 1"}, b.saw())
	key := b.engine.Read("nodes/").Pairs[0]
	require.Equal(t, records.NodeKey("a", b.node.Life()), key.Key)
	require.NotZero(t, key.Lease)
	require.JSONEq(t, `{"v":1,"id":"a","life":"1","address":"10.0.0.1:1"}`, string(key.Value))
	require.JSONEq(t, `{"v":1,"node":"a","life":"1","epoch":1}`, string(b.engine.Read("place/lock").Pairs[0].Value))
	b.run(time.Minute)
	require.Empty(t, b.saw())
}

// TestNode_deadline: it counts from before the renewal was sent, and an answer that comes later
// extends nothing.
func TestNode_deadline(t *testing.T) {
	b := joined(t, nil)
	b.hold = isRenewal
	b.run(2 * time.Second)
	require.Len(t, b.held, 1)
	sent := b.held[0]
	b.hold = func(protocol.Effect) bool { return false }
	before := b.node.Deadline()
	b.now += 1500 * time.Millisecond
	in, _ := b.answer(sent)
	b.step(in)
	require.Greater(t, b.node.Deadline(), before)
	require.LessOrEqual(t, b.node.Deadline(), b.now-1500*time.Millisecond+7*time.Second)

	b.hold = isRenewal
	life := b.node.Life()
	b.run(3 * time.Second)
	in, _ = b.answer(b.held[len(b.held)-1])
	b.now = b.node.Deadline()
	b.step(in)
	require.NotEqual(t, life, b.node.Life(), "the life is over")
}

func TestNode_fences(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.hold = isRenewal
	b.now = b.node.Deadline() - 1
	b.step(protocol.Input{})
	require.NotContains(t, b.saw(), "over")
	b.now++
	b.step(protocol.Input{})
	require.Equal(t, []string{"over", "end lock 1 true"}, b.saw(), "the shared server keeps running")
	require.Equal(t, protocol.StateFencing, b.node.State())
	require.NotEmpty(t, b.engine.Read("nodes/").Pairs, "the lease is kept until the server has been reaped")
	b.hold = func(protocol.Effect) bool { return false }
	b.ended("lock", 1)
	require.Equal(t, protocol.StateMember, b.node.State())
	require.Equal(t, "2", b.node.Life())
	b.run(3 * time.Second)
	require.Equal(t, []string{"revoke", "start lock 2", "adopt shared 2"}, b.saw())
}

// TestNode_lostGuard: the life is over at once, and the next one begins after a pause.
func TestNode_lostGuard(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.step(protocol.Input{Kind: protocol.InputFence})
	require.Equal(t, []string{"over", "end lock 1 true"}, b.saw())
	b.ended("lock", 1)
	require.Equal(t, []string{"revoke"}, b.saw())
	require.Equal(t, protocol.StateApart, b.node.State())
	b.step(protocol.Input{Kind: protocol.InputFence})
	require.Empty(t, b.saw(), "there is no life")
	b.run(3 * time.Second)
	require.Equal(t, []string{"start lock 2", "adopt shared 2"}, b.saw())
}

// TestNode_moves: the owner ends the server and releases it; the node that claims it ends the move.
func TestNode_moves(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.put("nodes/b/77", records.Encode(placement.Node{}, nil))
	b.put("move/lock", records.Encode(records.Move{Node: "b"}, nil))
	b.events()
	require.Equal(t, []string{"end lock 1 false"}, b.saw())
	require.Equal(t, "b", b.node.Snapshot().Names[0].Move)
	b.ended("lock", 1)
	require.True(t, b.released("lock"))
	require.NotEmpty(t, b.engine.Read("move/").Pairs)
	b.run(2900 * time.Millisecond)
	require.True(t, b.released("lock"), "it is for b")
	b.run(3 * time.Second)
	require.Equal(t, []string{"start lock 2"}, b.saw(), "which has not come")
	require.Empty(t, b.engine.Read("move/").Pairs)
	b.events()
	require.Empty(t, b.node.Snapshot().Names[0].Move)
	b.run(time.Minute)
	require.Empty(t, b.saw())
}

// TestNode_moveEnds: the lease of a move has ended, as the watch or a snapshot says.
func TestNode_moveEnds(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		b := joined(t, twoServers)
		b.put("move/lock", records.Encode(records.Move{Node: "b"}, nil))
		b.events()
		require.Equal(t, "b", b.node.Snapshot().Names[0].Move)
		b.remove("move/lock")
		if compacted {
			b.engine.Compact(b.engine.Revision())
			b.step(protocol.Input{Kind: protocol.InputWatchEnded, Watch: b.watch, Compacted: true})
			b.now += time.Second
			b.step(protocol.Input{})
		} else {
			b.events()
		}
		require.Empty(t, b.node.Snapshot().Names[0].Move)
	}
}

// TestNode_lostLease: another program has ended the lease, or removed the key.
func TestNode_lostLease(t *testing.T) {
	for name, lose := range map[string]func(b *bench){
		"the renewal says so": func(b *bench) {
			b.engine.Revoke(1)
			b.now += 2 * time.Second
			b.step(protocol.Input{})
		},
		"the watch says so": func(b *bench) {
			_, err := b.engine.Commit(store.Txn{Then: []store.Change{store.Remove(records.NodeKey("a", "1"))}})
			require.NoError(b.t, err)
			b.events()
		},
		"a snapshot says so": func(b *bench) {
			b.engine.Revoke(1)
			b.engine.Compact(b.engine.Revision())
			b.step(protocol.Input{Kind: protocol.InputWatchEnded, Watch: b.watch, Compacted: true})
			b.hold = isRenewal
			b.now += time.Second
			b.step(protocol.Input{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := joined(t, twoServers)
			b.saw()
			lose(b)
			seen := b.saw()
			require.Contains(t, seen, "over")
			require.Contains(t, seen, "end lock 1 true")
		})
	}
}

// TestNode_unknownClaim: the store carries out a claim whose answer is lost. The view starts the
// server, once.
func TestNode_unknownClaim(t *testing.T) {
	b := newBench(t, map[string]placement.Spec{"lock": {Exclusive: true}})
	b.hold = func(e protocol.Effect) bool {
		return e.Kind == protocol.EffectCommit && e.Txn.Then[0].Key == "place/lock"
	}
	b.step(protocol.Input{})
	b.run(2 * time.Second)
	require.Len(t, b.held, 1)
	claim := b.held[0]
	b.step(protocol.Input{Kind: protocol.InputFailed, Request: claim.Request})
	b.run(2 * time.Second)
	require.Len(t, b.held, 2, "it is tried again")
	_, _ = b.answer(claim)
	b.events()
	require.Equal(t, []string{"watch", "start lock 1"}, b.saw())
	in, _ := b.answer(b.held[1])
	require.False(t, in.Result.OK)
	b.step(in)
	b.run(5 * time.Second)
	require.Empty(t, b.saw())
}

// TestNode_serverEnds: a server that the guard has ended is given back, and comes again under the
// next epoch only.
func TestNode_serverEnds(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.ended("lock", 7)
	require.Empty(t, b.saw(), "of another epoch")
	b.ended("lock", 1)
	b.run(3 * time.Second)
	require.Equal(t, []string{"start lock 2"}, b.saw())
}

func TestNode_drainsAndLeaves(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.step(protocol.Input{Kind: protocol.InputDrain})
	b.events()
	require.Equal(t, []string{"end lock 1 false", "end shared 1 false"}, b.saw())
	require.False(t, b.released("lock"), "not before it has ended")
	b.ended("lock", 1)
	require.True(t, b.released("lock"))
	b.ended("shared", 1)
	b.run(time.Minute)
	require.Equal(t, []string{"drained"}, b.saw())
	require.Equal(t, protocol.StateMember, b.node.State())
	b.step(protocol.Input{Kind: protocol.InputLeave})
	require.Equal(t, []string{"revoke", "left"}, b.saw())
	require.Empty(t, b.engine.Read("nodes/").Pairs)
	require.Empty(t, b.node.Step(b.now, protocol.Input{}))
}

// TestNode_drainsWhatItClaims: the claim of a shared server that runs from the life before is carried out when the
// node drains already. The server ends once, and does not start again.
func TestNode_drainsWhatItClaims(t *testing.T) {
	b := joined(t, twoServers)
	b.engine.Revoke(1)
	b.hold = func(e protocol.Effect) bool {
		return e.Kind == protocol.EffectCommit && e.Txn.Then[0].Key == "place/shared"
	}
	b.run(3500 * time.Millisecond) // a renewal, then Settle
	b.ended("lock", 1)
	b.run(3500 * time.Millisecond)
	require.NotEmpty(t, b.held)
	b.saw()
	b.step(protocol.Input{Kind: protocol.InputLeave})
	b.events()
	claim := b.held[len(b.held)-1]
	b.hold = func(protocol.Effect) bool { return false }
	in, _ := b.answer(claim)
	require.True(t, in.Result.OK)
	b.step(in)
	require.Contains(t, b.saw(), "end shared 1 false")
	b.ended("shared", 1)
	b.ended("lock", 2)
	b.run(time.Second)
	require.Equal(t, []string{"drained", "revoke", "left"}, b.saw())
}

func (b *bench) released(name string) bool {
	return decodePlace(b.engine.Read("place/" + name).Pairs[0].Value).Released
}

// TestNode_foreign: what another node has claimed ends here.
func TestNode_foreign(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.put("place/shared", records.Encode(placement.Place{Node: "b", Life: "77", Epoch: 2}, nil))
	b.put("nodes/b/77", records.Encode(placement.Node{}, nil))
	b.events()
	require.Equal(t, []string{"end shared 1 false"}, b.saw())
}

// TestNode_compaction: what the watch has missed is read, removals included.
func TestNode_compaction(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	_, err := b.engine.Commit(store.Txn{Then: []store.Change{store.Remove("spec/shared"), store.Put("spec/new", []byte(`{"v":1}`))}})
	require.NoError(t, err)
	b.engine.Compact(b.engine.Revision())
	b.step(protocol.Input{Kind: protocol.InputWatchEnded, Watch: b.watch, Compacted: true})
	b.now += time.Second
	b.step(protocol.Input{})
	b.run(2 * time.Second)
	seen := b.saw()
	slices.Sort(seen)
	require.Equal(t, []string{"end shared 1 false", "start new 1", "watch"}, seen)
}

// TestNode_silentWatch: a watch that yields nothing is begun again.
func TestNode_silentWatch(t *testing.T) {
	b := joined(t, nil)
	b.saw()
	for range 65 {
		b.now += 100 * time.Millisecond
		b.step(protocol.Input{})
	}
	require.Equal(t, []string{"watch"}, b.saw())
}

func TestNode_malformedRecords(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	for _, key := range []string{"spec/bad", "place/lock", "nodes/b/1"} {
		b.put(key, []byte("{"))
	}
	b.put("nodes/", []byte("{}"))
	b.put("nodes/c/9", records.Encode(placement.Node{ID: "a", Life: "1", Capacity: 1}, nil))
	b.put("other", []byte("{"))
	b.run(3 * time.Second)
	require.Equal(t, 3, b.node.Malformed())
	require.Empty(t, b.saw(), "and what was known stays")
	nodes := b.node.View().Nodes()
	require.Len(t, nodes, 2)
	require.Equal(t, placement.Node{ID: "c", Life: "9", Capacity: 1}, nodes[1], "the key decides whose record it is")
}

// TestNode_slowGrant: a lease that comes when its deadline has passed is given back.
func TestNode_slowGrant(t *testing.T) {
	b := newBench(t, nil)
	b.hold = func(e protocol.Effect) bool { return e.Kind == protocol.EffectGrant }
	b.step(protocol.Input{})
	b.hold = func(protocol.Effect) bool { return false }
	in, _ := b.answer(b.held[0])
	b.now += 7 * time.Second
	b.step(in)
	require.Contains(t, b.saw(), "revoke")
	require.Equal(t, "2", b.node.Life())
}

// TestNode_claimOfAnEndedLife: the store carries a claim out when the lease of its life has ended.
func TestNode_claimOfAnEndedLife(t *testing.T) {
	b := newBench(t, map[string]placement.Spec{"lock": {Exclusive: true}})
	b.hold = func(e protocol.Effect) bool {
		return e.Kind == protocol.EffectCommit && e.Txn.Then[0].Key == "place/lock"
	}
	b.step(protocol.Input{})
	b.run(1500 * time.Millisecond)
	require.Len(t, b.held, 1)
	b.engine.Revoke(1)
	in, _ := b.answer(b.held[0])
	require.False(t, in.Result.OK)
}

// TestNode_keepsSharedServers: the next life claims what runs here before other candidates do.
func TestNode_keepsSharedServers(t *testing.T) {
	specs := map[string]placement.Spec{}
	for i := range 8 {
		specs[fmt.Sprint("shared", i)] = placement.Spec{}
	}
	b := joined(t, specs)
	b.saw()
	for _, id := range []string{"b", "c", "d", "e"} {
		b.put(records.NodeKey(id, "7"+id), records.Encode(placement.Node{}, nil))
	}
	b.events()
	b.engine.Revoke(1)
	b.run(3500 * time.Millisecond) // a renewal, then Settle
	adopted := 0
	for _, seen := range b.saw() {
		if strings.HasPrefix(seen, "adopt ") {
			adopted++
		}
	}
	require.Equal(t, 8, adopted)
}

// TestNode_leavesWithoutAStore: a node that has no lease ends its servers and leaves.
func TestNode_leavesWithoutAStore(t *testing.T) {
	b := joined(t, twoServers)
	b.saw()
	b.hold = func(protocol.Effect) bool { return true }
	b.now = b.node.Deadline()
	b.step(protocol.Input{})
	b.hold = func(e protocol.Effect) bool { return e.Kind <= protocol.EffectCommit }
	b.ended("lock", 1)
	b.step(protocol.Input{Kind: protocol.InputLeave})
	require.Equal(t, []string{"end shared 1 true"}, b.saw())
	b.ended("shared", 1)
	require.Equal(t, []string{"left"}, b.saw())
}
