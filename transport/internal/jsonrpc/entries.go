package jsonrpc

import "iter"

// Entries holds the requests in flight by their ids. The zero value is empty and ready. The
// mutex of the Table guards it.
//
// Ids count up, so the ids in flight at a time are close together. Most entries lie in the
// slot that the last bits of their id name, which takes a fraction of the time of a map. An
// entry whose slot is taken, by one that stays longer, lies in a map.
type Entries struct {
	slots  []*Entry         // a power of two of them, or none
	others map[int64]*Entry // entries whose slot is taken
	count  int
}

const (
	// minSlots is how many slots the first entry makes.
	minSlots = 16
	// maxIdleSlots is how many slots are kept when the last entry is removed.
	maxIdleSlots = 256
)

// Len returns how many entries there are.
func (t *Entries) Len() int { return t.count }

// Get returns the entry with this id; nil if there is none.
func (t *Entries) Get(id int64) *Entry {
	if len(t.slots) == 0 {
		return nil
	}
	if e := t.slots[t.slotOf(id)]; e != nil && e.ID == id {
		return e
	}
	if len(t.others) == 0 {
		return nil
	}
	return t.others[id]
}

// slotOf returns the index of the slot for an id. There are slots.
func (t *Entries) slotOf(id int64) int { return int(id) & (len(t.slots) - 1) }

// Add adds an entry. Its id must be free.
func (t *Entries) Add(e *Entry) {
	if t.count >= len(t.slots)/2 {
		t.grow()
	}
	t.count++
	t.place(e)
}

// grow doubles the slots, and gives each entry its new place.
func (t *Entries) grow() {
	old := *t
	t.slots, t.others = make([]*Entry, max(2*len(old.slots), minSlots)), nil
	for e := range old.All() {
		t.place(e)
	}
}

// place puts an entry into its slot, or beside the slots if that is taken.
func (t *Entries) place(e *Entry) {
	slot := &t.slots[t.slotOf(e.ID)]
	if *slot == nil {
		*slot = e
		return
	}
	if t.others == nil {
		t.others = make(map[int64]*Entry)
	}
	t.others[e.ID] = e
}

// Delete removes the entry with this id, if there is one.
func (t *Entries) Delete(id int64) {
	if t.Get(id) == nil {
		return
	}
	if slot := &t.slots[t.slotOf(id)]; *slot != nil && (*slot).ID == id {
		*slot = nil
	} else {
		delete(t.others, id)
	}
	if t.count--; t.count == 0 && len(t.slots) > maxIdleSlots {
		*t = Entries{}
	}
}

// All iterates over the entries, in no order. The loop may delete entries, and must not add
// any.
func (t *Entries) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, e := range t.slots {
			if e != nil && !yield(e) {
				return
			}
		}
		for _, e := range t.others {
			if !yield(e) {
				return
			}
		}
	}
}
