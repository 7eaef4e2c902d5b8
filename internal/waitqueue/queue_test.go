package waitqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func isAdmitted(w *Waiter[int]) bool {
	select {
	case <-w.Admitted():
		return true
	default:
		return false
	}
}

func TestQueue_admits_in_order_while_there_is_room(t *testing.T) {
	var q Queue[int]
	first, second, third := q.Add(2), q.Add(3), q.Add(1)
	room := 4
	take := func(n int) bool {
		if n > room {
			return false
		}
		room -= n
		return true
	}
	q.Admit(take)
	require.True(t, isAdmitted(first))
	require.False(t, isAdmitted(second))
	require.False(t, isAdmitted(third), "it does not pass the second, though there is room for it")
	require.Equal(t, 2, q.Len())
	room = 4
	q.Admit(take)
	require.True(t, isAdmitted(second))
	require.True(t, isAdmitted(third))
	require.Zero(t, q.Len())
	require.Zero(t, room)
}

func TestQueue_remove(t *testing.T) {
	var q Queue[int]
	first, second := q.Add(1), q.Add(2)
	require.True(t, q.Remove(first))
	require.False(t, q.Remove(first), "it is not in the queue any more")
	q.Admit(func(n int) bool { return n == 2 })
	require.True(t, isAdmitted(second))
	require.False(t, q.Remove(second), "it was admitted")
	require.False(t, isAdmitted(first))
	require.Zero(t, q.Len())
}
