package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/protocol"
	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

func (b *bench) value(key string) string {
	pairs := b.engine.Read(key).Pairs
	require.Len(b.t, pairs, 1)
	return string(pairs[0].Value)
}

// TestNode_keepsFieldsOfPlaces: what a newer program has written into a place remains, whichever node
// claims and releases it.
func TestNode_keepsFieldsOfPlaces(t *testing.T) {
	b := newBench(t, map[string]placement.Spec{"lock": {Exclusive: true}})
	b.put("place/lock", []byte(`{"v":1,"node":"b","life":"77","epoch":4,"later":{"a":1}}`))
	b.step(protocol.Input{})
	b.run(2 * time.Second)
	require.Equal(t, `{"epoch":5,"later":{"a":1},"life":"1","node":"a","v":1}`, b.value("place/lock"))
	b.put("place/lock", []byte(`{"v":1,"node":"a","life":"1","epoch":5,"later":{"a":2}}`))
	b.step(protocol.Input{Kind: protocol.InputDrain})
	b.events()
	b.ended("lock", 5)
	require.Equal(t, `{"epoch":5,"later":{"a":2},"life":"1","node":"a","released":true,"v":1}`, b.value("place/lock"))
}

// TestNode_forgetsFieldsOfPlaces: a field that was removed does not come again.
func TestNode_forgetsFieldsOfPlaces(t *testing.T) {
	b := joined(t, map[string]placement.Spec{"lock": {Exclusive: true}})
	b.put("place/lock", []byte(`{"v":1,"node":"a","life":"1","epoch":1,"later":1}`))
	b.events()
	b.put("place/lock", []byte(`{"v":1,"node":"a","life":"1","epoch":1}`))
	b.ended("lock", 1)
	b.run(2 * time.Second)
	require.Equal(t, `{"v":1,"node":"a","life":"1","epoch":2}`, b.value("place/lock"))
}

// TestNode_keepsFieldsOfItsRecord: so does what another program has written into the record of the node,
// although the node has not seen it yet.
func TestNode_keepsFieldsOfItsRecord(t *testing.T) {
	for name, value := range map[string]string{
		"a field":        `{"v":1,"id":"a","life":"1","address":"10.0.0.1:1","later":{"a":1}}`,
		"a later record": `{"v":2}`,
	} {
		for _, seen := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				b := joined(t, nil)
				_, err := b.engine.Commit(store.Txn{Then: []store.Change{store.PutLeased("nodes/a/1", []byte(value), 1)}})
				require.NoError(t, err)
				if seen {
					b.events()
				}
				b.saw()
				b.step(protocol.Input{Kind: protocol.InputDrain})
				b.run(2 * time.Second)
				require.Equal(t, []string{"drained"}, b.saw(), "the life is not over")
				want := `{"v":1,"id":"a","life":"1","address":"10.0.0.1:1","draining":true}`
				if name == "a field" {
					want = `{"address":"10.0.0.1:1","draining":true,"id":"a","later":{"a":1},"life":"1","v":1}`
				}
				require.Equal(t, want, b.value("nodes/a/1"))
			})
		}
	}
}

// TestNode_laterRecords: records of a later version are counted, and neither misread nor written
// over or removed; what was known before stays.
func TestNode_laterRecords(t *testing.T) {
	b := joined(t, twoServers)
	b.put("nodes/b/77", []byte(`{"v":1,"address":"b:1"}`))
	b.put("place/other", []byte(`{"v":1,"node":"b","life":"77","epoch":4}`))
	b.put("spec/other", []byte(`{"v":1}`))
	b.events()
	b.saw()
	b.heard()
	for _, key := range []string{"nodes/b/77", "place/other", "spec/other", "place/new", "spec/later", "nodes/c/78", "generation"} {
		b.put(key, []byte(`{"v":2,"exclusive":true,"epoch":9,"applied":9,"released":true,"draining":true}`))
	}
	b.put("spec/new", []byte(`{"v":1}`))
	before := b.engine.Read("")
	b.events()
	b.engine.Compact(b.engine.Revision())
	b.step(protocol.Input{Kind: protocol.InputWatchEnded, Watch: b.watch, Compacted: true})
	b.run(time.Minute)
	require.Equal(t, before.Pairs, b.engine.Read("").Pairs)
	require.Equal(t, []string{"spec new "}, b.heard(), "it has a place, which is not known here")
	require.Equal(t, []string{"watch"}, b.saw())
	require.GreaterOrEqual(t, b.node.Malformed(), 14)
	nodes := b.node.View().Nodes()
	require.Len(t, nodes, 2)
	require.True(t, strings.HasPrefix(nodes[1].Address, "b:1") && !nodes[1].Draining)
}
