package waitqueue

import (
	"slices"
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

// Clients are admitted in turn: one that adds many, or that adds again as soon as it is admitted, delays another by
// one of its own in each round.
func TestQueue_admits_clients_in_turn(t *testing.T) {
	var q Queue[string]
	for _, v := range []string{"a1", "a2", "a3", "a4"} {
		q.AddFor("a", v)
	}
	b1 := q.AddFor("b", "b1")
	q.AddFor("b", "b2")
	q.AddFor("c", "c1")
	require.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}, slices.Collect(q.All()))
	require.True(t, q.Remove(b1))

	var admitted []string
	next := func() {
		n := len(admitted)
		q.Admit(func(v string) bool {
			if len(admitted) > n {
				return false
			}
			admitted = append(admitted, v)
			return true
		})
	}
	for range 4 {
		next()
		q.AddFor("d", "d")
		require.LessOrEqual(t, q.Len(), 7)
	}
	for q.Len() > 0 {
		next()
	}
	require.Equal(t, []string{"a1", "b2", "c1", "d", "a2", "d", "a3", "d", "a4", "d"}, admitted)
}

// A queue that one client fills keeps room for others: the one that has asked for most is refused.
func TestQueue_RefuseLast(t *testing.T) {
	var q Queue[string]
	waiting := map[string]*Waiter[string]{}
	for _, v := range []string{"a1", "a2", "a3", "b1"} {
		waiting[v] = q.AddFor(v[:1], v)
	}
	q.RefuseLast()
	require.Equal(t, []string{"a1", "b1", "a2"}, slices.Collect(q.All()))
	<-waiting["a3"].Refused()
	require.False(t, q.Remove(waiting["a3"]), "it was refused")
	q.AddFor("a", "a3")
	q.RefuseLast()
	require.Equal(t, []string{"a1", "b1", "a2"}, slices.Collect(q.All()), "the one that comes is of the client that has most")
	for range 4 {
		q.RefuseLast()
	}
	require.Zero(t, q.Len())
}

// A client whose waiters give up is as far from its turn as one that never had them: its later ones take their places.
func TestQueue_remove_moves_those_of_the_same_client_up(t *testing.T) {
	var q Queue[string]
	var gaveUp []*Waiter[string]
	for range 9 {
		gaveUp = append(gaveUp, q.AddFor("a", "given up"))
	}
	q.AddFor("a", "a")
	for range 5 {
		q.AddFor("b", "b")
	}
	for _, w := range gaveUp {
		require.True(t, q.Remove(w))
	}
	q.AddFor("a", "a")
	require.Equal(t, []string{"a", "b", "b", "a", "b", "b", "b"}, slices.Collect(q.All()))
}

// An empty queue remembers no client, so it keeps nothing of a session alive, and none comes later for what it had before.
func TestQueue_is_empty_after_the_last_one_gives_up(t *testing.T) {
	var q Queue[int]
	q.AddFor("a", 1)
	last := q.AddFor("b", 2)
	q.Admit(func(n int) bool { return n == 1 })
	require.True(t, q.Remove(last))
	require.Empty(t, q.served)
}
