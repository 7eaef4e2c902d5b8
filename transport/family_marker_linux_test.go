package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFamilyMarker: 1 is the server, 2 its child. Process 2 ends and its number is given
// to a process of another program, which has the child 3.
func TestFamilyMarker(t *testing.T) {
	family := func() map[int]procStat {
		return map[int]procStat{
			1: {exists: true, start: "10"},
			2: {exists: true, start: "20", parent: 1},
			3: {exists: true, start: "30", parent: 2},
		}
	}
	another := procStat{exists: true, start: "25", parent: 99}
	marker := func(stats map[int]procStat, read func(pid int)) (m familyMarker, marks map[int]uint64) {
		marks = map[int]uint64{}
		return familyMarker{
			stat: func(pid int) procStat { return stats[pid] },
			children: func(pid int) (children []int) {
				read(pid)
				for child, st := range stats {
					if st.parent == pid {
						children = append(children, child)
					}
				}
				return children
			},
			mark: func(pid int, mark uint64) bool { marks[pid] = mark; return true },
		}, marks
	}
	t.Run("descendants", func(t *testing.T) {
		m, marks := marker(family(), func(int) {})
		m.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7, 3: 7}, marks)
	})
	t.Run("number_reused_before_children_are_read", func(t *testing.T) {
		stats := family()
		m, marks := marker(stats, func(int) {})
		mark, looks := m.mark, 0
		m.mark = func(pid int, value uint64) bool { looks = 0; return mark(pid, value) }
		stat := m.stat
		m.stat = func(pid int) procStat {
			defer func() {
				if looks++; pid == 2 && marks[2] != 0 && looks == 1 {
					stats[2] = another // just after it was seen to be the one that was marked
				}
			}()
			return stat(pid)
		}
		m.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, marks)
	})
	t.Run("number_reused_while_children_are_read", func(t *testing.T) {
		stats := family()
		m, marks := marker(stats, func(pid int) {
			if pid == 2 {
				stats[2] = another
			}
		})
		m.run(1, 7)
		require.Equal(t, map[int]uint64{1: 7, 2: 7}, marks)
	})
}
