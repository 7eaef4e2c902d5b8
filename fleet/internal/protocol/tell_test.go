package protocol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// heard returns what the servers were told, and forgets it.
func (b *bench) heard() []string {
	told := b.told
	b.told = nil
	return told
}

func (b *bench) remove(key string) {
	_, err := b.engine.Commit(store.Txn{Then: []store.Change{store.Remove(key)}})
	require.NoError(b.t, err)
}

func spec(definition string) []byte {
	return records.Encode(records.Spec{Definition: []byte(definition)}, nil)
}

func gateway(definition string) []byte {
	return records.Encode(records.Gateway{Definition: []byte(definition)}, nil)
}

// isCommit holds what the node would write.
func isCommit(e protocol.Effect) bool { return e.Kind == protocol.EffectCommit }

// TestNode_tells: the servers hear of each change of a place once, with any owner, and of nothing
// else.
func TestNode_tells(t *testing.T) {
	b := joined(t, twoServers)
	require.Equal(t, []string{
		"spec lock ", "spec shared ",
		`place lock 1 on a/1 at 10.0.0.1:1`, `place shared 1 on a/1 at 10.0.0.1:1`,
	}, b.heard())
	require.Equal(t, []string{"spec lock", "spec shared", "place lock", "start lock", "place shared", "start shared"}, b.order,
		"a server starts by what was told before")

	b.hold = isCommit
	address := func(address string, draining bool) []byte {
		return records.Encode(placement.Node{Address: address, Draining: draining}, nil)
	}
	for _, c := range []struct {
		what string
		do   func()
		told []string
	}{
		{"a place whose owner is not there", func() {
			b.put("place/other", records.Encode(placement.Place{Node: "b", Life: "77", Epoch: 4}, nil))
		}, []string{`place other 4 on b/77`}},
		{"the owner comes", func() { b.put("nodes/b/77", address("b:1", false)) },
			[]string{`place other 4 on b/77 at b:1`}},
		{"it drains", func() { b.put("nodes/b/77", address("b:1", true)) }, nil},
		{"it has another address", func() { b.put("nodes/b/77", address("b:2", true)) },
			[]string{`place other 4 on b/77 at b:2`}},
		{"it ends", func() { b.remove("nodes/b/77") }, []string{`place other 4 on b/77`}},
		{"it comes and ends between two batches", func() {
			b.put("nodes/b/77", address("b:2", false))
			b.remove("nodes/b/77")
		}, nil},
		{"a node without names", func() { b.put("nodes/c/78", address("c:1", true)) }, nil},
		{"a definition comes", func() { b.put("spec/other", spec(`{"command":"x"}`)) }, []string{`spec other {"command":"x"}`}},
		{"it changes, and the placement does not", func() { b.put("spec/other", spec(`{"command":"y"}`)) },
			[]string{`spec other {"command":"y"}`}},
		{"it is written again", func() { b.put("spec/other", spec(`{"command":"y"}`)) }, nil},
		{"it goes", func() { b.remove("spec/other") }, []string{"no spec other"}},
		{"the gateway has a definition, and a server that was written before it", func() {
			b.put("spec/other", spec(`{}`))
			b.put("gateway", gateway(`{"on_down":"5m"}`))
		}, []string{`gateway {"on_down":"5m"}`, `spec other {}`}},
		{"it is written again", func() { b.put("gateway", gateway(`{"on_down":"5m"}`)) }, nil},
		{"it cannot be read", func() { b.put("gateway", []byte(`{"v":2}`)) }, nil},
		{"it goes", func() { b.remove("gateway") }, []string{"gateway "}},
	} {
		c.do()
		b.events()
		require.Equal(t, c.told, b.heard(), c.what)
	}
}

// TestNode_tellsAfterSnapshot: what the watch has missed is told, and nothing else.
func TestNode_tellsAfterSnapshot(t *testing.T) {
	b := joined(t, twoServers)
	b.put("nodes/b/77", records.Encode(placement.Node{}, nil))
	b.put("place/other", records.Encode(placement.Place{Node: "b", Life: "77", Epoch: 4}, nil))
	b.put("spec/kept", spec(`{}`))
	b.put("spec/changed", spec(`{}`))
	b.put("spec/gone", spec(`{}`))
	b.put("gateway", gateway(`{}`))
	b.events()
	b.heard()

	b.hold = isCommit
	b.remove("nodes/b/77")
	b.remove("spec/gone")
	b.remove("gateway")
	b.put("spec/changed", spec(`{"a":1}`))
	b.engine.Compact(b.engine.Revision())
	b.step(protocol.Input{Kind: protocol.InputWatchEnded, Watch: b.watch, Compacted: true})
	b.now += 600 * time.Millisecond
	b.step(protocol.Input{})
	require.Equal(t, []string{
		"gateway ", `spec changed {"a":1}`, "no spec gone", `place other 4 on b/77`,
	}, b.heard())
}

func TestNode_snapshot(t *testing.T) {
	b := joined(t, map[string]placement.Spec{"lock": {Exclusive: true}})
	b.hold = isCommit
	b.put("place/old", records.Encode(placement.Place{Node: "b", Life: "77", Epoch: 4, Released: true}, nil))
	b.put("spec/new", spec(`{}`))
	b.put(records.GenerationKey, records.Encode(records.Generation{Applied: 3, Next: 4}, nil))
	b.put("spec/later", []byte(`{"v":2}`))
	b.events()
	s := b.node.Snapshot()
	require.Equal(t, protocol.StateMember, s.State)
	require.Equal(t, "member", s.State.String())
	require.Equal(t, b.node.Life(), s.Life)
	require.Equal(t, b.node.Deadline(), s.Deadline)
	require.Equal(t, b.engine.Revision(), s.Revision)
	require.Equal(t, b.now, s.Heard)
	require.Equal(t, records.Generation{Applied: 3, Next: 4}, s.Generation)
	require.Equal(t, []placement.Node{{ID: "a", Life: "1", Address: "10.0.0.1:1"}}, s.Nodes)
	require.Equal(t, 1, s.Malformed)
	require.Equal(t, []protocol.Name{
		{Name: "lock", Known: true, Spec: records.Spec{Spec: placement.Spec{Exclusive: true}}, Place: placement.Place{Node: "a", Life: "1", Epoch: 1}, Alive: true, Epoch: 1},
		{Name: "new", Known: true, Spec: records.Spec{Definition: []byte("{}")}},
		{Name: "old", Place: placement.Place{Node: "b", Life: "77", Epoch: 4, Released: true}},
	}, s.Names)
	require.False(t, s.Draining || s.Drained)

	b = joined(t, map[string]placement.Spec{"lock": {Exclusive: true}})

	b.step(protocol.Input{Kind: protocol.InputDrain})
	b.events()
	b.ended("lock", 1)
	s = b.node.Snapshot()
	require.True(t, s.Draining && s.Drained)
	require.Zero(t, s.Names[0].Epoch)
}
