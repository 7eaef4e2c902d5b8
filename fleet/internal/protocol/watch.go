package protocol

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/placement"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

// watchState is how the node follows the store. The view outlives the lives of the node.
type watchState struct {
	revision int64 // that the view has; 0: nothing was read
	reading  bool
	reread   bool // the events since revision are gone
	retryAt  time.Duration
	current  bool // a watch is open
	number   uint64
	heard    time.Duration // when it last yielded something
}

// advanceWatch reads, and watches what was read.
func (n *Node) advanceWatch() {
	w := &n.watch
	if w.current && n.now >= w.heard+n.config.Silence {
		w.current = false
	}
	switch {
	case w.reading:
	case w.current:
		n.wake(w.heard + n.config.Silence)
	case n.now < w.retryAt:
		n.wake(w.retryAt)
	case w.revision == 0 || w.reread:
		w.reading = true
		n.ask(Effect{Kind: EffectRead}, request{})
	default:
		w.current, w.heard = true, n.now
		w.number++
		n.do(Effect{Kind: EffectWatch, Watch: w.number, After: w.revision})
		n.wake(w.heard + n.config.Silence)
	}
}

func (n *Node) takeWatchEnd(in Input) {
	w := &n.watch
	if !w.current || in.Watch != w.number {
		return
	}
	w.current, w.reread = false, in.Compacted
	w.retryAt = n.now + n.config.Retry
}

func (n *Node) takeBatch(in Input) {
	w := &n.watch
	if !w.current || in.Watch != w.number {
		return
	}
	w.heard, w.revision = n.now, in.Batch.Revision
	for _, event := range in.Batch.Events {
		n.apply(event)
	}
}

func (n *Node) takeSnapshot(in Input) {
	w := &n.watch
	w.reading = false
	if in.Kind != InputRead || in.Snapshot.Revision < w.revision {
		w.retryAt = n.now + n.config.Retry
		return
	}
	w.revision, w.reread = in.Snapshot.Revision, false
	lives, specs := map[string]bool{}, map[string]bool{}
	for _, pair := range in.Snapshot.Pairs {
		if id, life, ok := splitNodeKey(pair.Key); ok {
			lives[NodeKey(id, life)] = true
		} else if name, ok := strings.CutPrefix(pair.Key, specPrefix); ok {
			specs[name] = true
		}
		n.apply(store.Event{Pair: pair})
	}
	for _, known := range n.view.Lives() {
		if key := NodeKey(known.ID, known.Life); !lives[key] {
			n.view.RemoveNode(n.now, known.Life)
			n.keyGone(key, w.revision)
		}
	}
	for _, name := range n.view.Names() {
		if !specs[name] {
			n.view.RemoveSpec(n.now, name)
		}
	}
}

// apply brings one change of the store to the view. A record that cannot be read changes nothing.
func (n *Node) apply(event store.Event) {
	key, pair := event.Pair.Key, event.Pair
	if id, life, ok := splitNodeKey(key); ok {
		if event.Removed {
			n.view.RemoveNode(n.now, life)
			n.keyGone(key, pair.Revision)
		} else if record, ok := decode[placement.Node](n, pair.Value); ok {
			record.ID, record.Life = id, life // the key decides
			n.view.SetNode(n.now, record, pair.Revision)
		}
	} else if name, ok := strings.CutPrefix(key, specPrefix); ok {
		if event.Removed {
			n.view.RemoveSpec(n.now, name)
		} else if record, ok := decode[placement.Spec](n, pair.Value); ok {
			n.view.SetSpec(n.now, name, record)
		}
	} else if name, ok := strings.CutPrefix(key, placePrefix); ok && !event.Removed {
		if record, ok := decode[placement.Place](n, pair.Value); ok {
			n.view.SetPlace(n.now, name, record, pair.Revision)
		}
	}
}

func splitNodeKey(key string) (id, life string, ok bool) {
	rest, ok := strings.CutPrefix(key, nodesPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

func decode[R any](n *Node, value []byte) (record R, ok bool) {
	if err := json.Unmarshal(value, &record); err != nil {
		n.malformed++
		return record, false
	}
	return record, true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
