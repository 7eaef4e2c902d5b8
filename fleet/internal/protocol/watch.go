package protocol

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
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
	begun    time.Duration // when the watch was begun, or last yielded something
	heard    time.Duration // when the store last said something
}

// advanceWatch reads, and watches what was read.
func (n *Node) advanceWatch() {
	w := &n.watch
	if w.current && n.now >= w.begun+n.config.Silence {
		w.current = false
	}
	switch {
	case w.reading:
	case w.current:
		n.wake(w.begun + n.config.Silence)
	case n.now < w.retryAt:
		n.wake(w.retryAt)
	case w.revision == 0 || w.reread:
		w.reading = true
		n.ask(Effect{Kind: EffectRead}, request{})
	default:
		w.current, w.begun = true, n.now
		w.number++
		n.do(Effect{Kind: EffectWatch, Watch: w.number, After: w.revision})
		n.wake(w.begun + n.config.Silence)
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
	w.begun, w.heard, w.revision = n.now, n.now, in.Batch.Revision
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
	w.heard, w.revision, w.reread = n.now, in.Snapshot.Revision, false
	lives, specs, moves, gateway := map[string]bool{}, map[string]bool{}, map[string]bool{}, false
	for _, pair := range in.Snapshot.Pairs {
		if id, life, ok := records.SplitNodeKey(pair.Key); ok {
			lives[records.NodeKey(id, life)] = true
		} else if name, ok := strings.CutPrefix(pair.Key, records.SpecPrefix); ok {
			specs[name] = true
		} else if name, ok := strings.CutPrefix(pair.Key, records.MovePrefix); ok {
			moves[name] = true
		} else if pair.Key == records.GatewayKey {
			gateway = true
		}
		n.apply(store.Event{Pair: pair})
	}
	if !gateway {
		n.setGateway(nil)
	}
	for _, known := range n.view.Lives() {
		if key := records.NodeKey(known.ID, known.Life); !lives[key] {
			n.view.RemoveNode(n.now, known.Life)
			n.keyGone(key, w.revision)
		}
	}
	for _, name := range n.view.Names() {
		if !specs[name] {
			n.removeSpec(name)
		}
	}
	for _, name := range n.view.Moves() {
		if !moves[name] {
			n.view.SetMove(name, "")
		}
	}
}

// apply brings one change of the store to the view. A record that cannot be read changes nothing.
func (n *Node) apply(event store.Event) {
	key, pair := event.Pair.Key, event.Pair
	if id, life, ok := records.SplitNodeKey(key); ok {
		if event.Removed {
			n.view.RemoveNode(n.now, life)
			n.keyGone(key, pair.Revision)
		} else if record, rest, ok := decode[placement.Node](n, pair.Value); ok {
			record.ID, record.Life = id, life // the key decides
			n.view.SetNode(n.now, record, pair.Revision)
			n.keyWritten(key, rest, pair.Revision)
		}
	} else if name, ok := strings.CutPrefix(key, records.SpecPrefix); ok {
		if event.Removed {
			n.removeSpec(name)
		} else if record, _, ok := decode[records.Spec](n, pair.Value); ok {
			n.setSpec(name, record)
		}
	} else if name, ok := strings.CutPrefix(key, records.PlacePrefix); ok && !event.Removed {
		if record, rest, ok := decode[placement.Place](n, pair.Value); ok {
			n.setPlace(name, record, rest, pair.Revision)
		}
	} else if name, ok := strings.CutPrefix(key, records.MovePrefix); ok {
		if event.Removed {
			n.view.SetMove(name, "")
		} else if record, _, ok := decode[records.Move](n, pair.Value); ok {
			n.view.SetMove(name, record.Node)
		}
	} else if key == records.GatewayKey {
		if event.Removed {
			n.setGateway(nil)
		} else if record, _, ok := decode[records.Gateway](n, pair.Value); ok {
			n.setGateway(record.Definition)
		}
	} else if key == records.GenerationKey && !event.Removed {
		if record, _, ok := decode[records.Generation](n, pair.Value); ok {
			n.generation = record
		}
	}
}

func decode[R records.Record](n *Node, value []byte) (record R, rest records.Rest, ok bool) {
	record, rest, err := records.Decode[R](value)
	if err != nil {
		n.malformed++
	}
	return record, rest, err == nil
}

// setPlace takes a place record, and keeps what this program does not know of it.
func (n *Node) setPlace(name string, record placement.Place, rest records.Rest, revision int64) {
	if _, known := n.view.Place(name); revision <= known {
		return
	}
	n.view.SetPlace(n.now, name, record, revision)
	if rest != nil {
		n.placeRest[name] = rest
	} else {
		delete(n.placeRest, name)
	}
}

func (n *Node) setGateway(definition json.RawMessage) {
	if !bytes.Equal(n.gateway, definition) {
		n.gateway, n.gatewayChanged = definition, true
	}
}

func (n *Node) setSpec(name string, record records.Spec) {
	if known, ok := n.specs[name]; ok && known.Equal(record) {
		return
	}
	n.specs[name] = record
	n.specsChanged[name] = true
	n.view.SetSpec(n.now, name, record.Spec)
}

func (n *Node) removeSpec(name string) {
	if _, known := n.specs[name]; !known {
		return
	}
	delete(n.specs, name)
	n.specsChanged[name] = true
	n.view.RemoveSpec(n.now, name)
}

// told is what the servers were told of a place.
type told struct {
	place   placement.Place
	address string
	alive   bool
}

// tell says what has changed since the last step: what gateways offer first, then specifications, then
// places.
func (n *Node) tell() {
	if n.gatewayChanged {
		n.do(Effect{Kind: EffectGateway, Gateway: n.gateway})
		n.gatewayChanged = false
	}
	if len(n.specsChanged) > 0 {
		for _, name := range sortedKeys(n.specsChanged) {
			e := Effect{Kind: EffectSpec, Name: name}
			if record, known := n.specs[name]; known {
				e.Record = &record
			}
			n.do(e)
		}
		clear(n.specsChanged)
	}
	for _, name := range n.view.Changed() {
		place, revision := n.view.Place(name)
		if revision == 0 {
			continue
		}
		owner, alive := n.view.Life(place.Life)
		if now := (told{place, owner.Address, alive}); n.told[name] != now {
			n.told[name] = now
			e := Effect{Kind: EffectPlace, Name: name, Place: place}
			if alive {
				e.Owner = &owner
			}
			n.do(e)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
