package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// In each process table 1 is the server, 2 its child and 3 the child of 2. In the last
// two tests process 2 ends, and its id is given to a process of another program, which
// then is the parent of 3.
func TestTreeTagger(t *testing.T) {
	processes := func() map[int]procStat {
		return map[int]procStat{
			1: {exists: true, start: "10"},
			2: {exists: true, start: "20", parent: 1},
			3: {exists: true, start: "30", parent: 2},
		}
	}
	other := procStat{exists: true, start: "25", parent: 99}
	// newTagger reads the table, calls onRead before it returns children, and records
	// the tags that are set.
	newTagger := func(table map[int]procStat, onRead func(pid int)) (tagger treeTagger, tags map[int]uint64) {
		tags = map[int]uint64{}
		return treeTagger{
			stat: func(pid int) procStat { return table[pid] },
			children: func(pid int) (children []int) {
				onRead(pid)
				for child, st := range table {
					if st.parent == pid {
						children = append(children, child)
					}
				}
				return children
			},
			set: func(pid int, tag uint64) bool { tags[pid] = tag; return true },
		}, tags
	}
	t.Run("descendants", func(t *testing.T) {
		tagger, tags := newTagger(processes(), func(int) {})
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7, 3: 7}, tags)
	})
	t.Run("id_reused_before_children_are_read", func(t *testing.T) {
		table := processes()
		tagger, tags := newTagger(table, func(int) {})
		set, stats := tagger.set, 0
		tagger.set = func(pid int, tag uint64) bool { stats = 0; return set(pid, tag) }
		stat := tagger.stat
		tagger.stat = func(pid int) procStat {
			defer func() {
				if stats++; pid == 2 && tags[2] != 0 && stats == 1 {
					table[2] = other // just after it was found to be the tagged one
				}
			}()
			return stat(pid)
		}
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, tags)
	})
	t.Run("id_reused_while_children_are_read", func(t *testing.T) {
		table := processes()
		tagger, tags := newTagger(table, func(pid int) {
			if pid == 2 {
				table[2] = other
			}
		})
		tagger.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, tags)
	})
}
