// Package waitqueue is a queue of goroutines that wait for room: clients in turn, and
// those of one client first come, first served. It decides nothing about room: its owner does, under a mutex of its own.
//
//	mu.Lock()
//	w := queue.Add(request)
//	queue.Admit(tryTakeRoom) // and again whenever there is more room
//	mu.Unlock()
//	select {
//	case <-w.Admitted():
//	case <-ctx.Done():
//		mu.Lock()
//		left := queue.Remove(w) // false: it was admitted in the same moment
//		mu.Unlock()
//	}
package waitqueue

import (
	"container/list"
	"context"
	"iter"
)

// Queue holds waiters in the order in which they are admitted. T is what a waiter asks for. The zero
// value is empty. Not safe for concurrent use: the mutex of the owner guards it.
type Queue[T any] struct {
	waiters list.List    // of *Waiter[T], their rounds never fall
	round   int          // of the last one that was admitted
	served  map[any]bool // the clients of which one was admitted in that round; empty if none waits
}

// Waiter is one goroutine that waits.
type Waiter[T any] struct {
	value    T
	client   any
	round    int
	admitted chan struct{}
	refused  chan struct{}
	place    *list.Element // nil once it was admitted, refused or removed
}

// Admitted is closed when the waiter is admitted.
func (w *Waiter[T]) Admitted() <-chan struct{} { return w.admitted }

// Refused is closed when RefuseLast refuses the waiter.
func (w *Waiter[T]) Refused() <-chan struct{} { return w.refused }

// Len is how many waiters are in the queue.
func (q *Queue[T]) Len() int { return q.waiters.Len() }

// Add appends a waiter that asks for v. All that it adds are of one client.
func (q *Queue[T]) Add(v T) *Waiter[T] { return q.AddFor(nil, v) }

// AddFor adds a waiter of a client, a comparable value. In each round one waiter of each client is admitted. A client of which
// none was admitted in this round comes before all others that wait for the next one.
func (q *Queue[T]) AddFor(client any, v T) *Waiter[T] {
	w := &Waiter[T]{value: v, client: client, round: q.round, admitted: make(chan struct{}), refused: make(chan struct{})}
	if q.served[client] {
		w.round++
	}
	e := q.waiters.Back()
	for ; e != nil; e = e.Prev() {
		if before := e.Value.(*Waiter[T]); before.client == client {
			w.round = before.round + 1
			break
		}
	}
	for e = q.waiters.Back(); e != nil && e.Value.(*Waiter[T]).round > w.round; {
		e = e.Prev()
	}
	if e == nil {
		w.place = q.waiters.PushFront(w)
	} else {
		w.place = q.waiters.InsertAfter(w, e)
	}
	return w
}

// RefuseLast removes the waiter that would be admitted last. It is one of a client that has asked for most, so a client
// that fills the queue takes no room from others.
func (q *Queue[T]) RefuseLast() {
	if last := q.waiters.Back(); last != nil {
		w := last.Value.(*Waiter[T])
		q.Remove(w)
		close(w.refused)
	}
}

// ClientKey is the key of a context's client, for contexts that are not made by WithClient.
type ClientKey struct{}

// WithClient returns a context of requests of that client, unless ctx is of one already.
func WithClient(ctx context.Context, client any) context.Context {
	if ClientOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, ClientKey{}, client)
}

// ClientOf returns the client of a context; nil: the program itself.
func ClientOf(ctx context.Context) any { return ctx.Value(ClientKey{}) }

// Admit removes waiters from the head of the queue and admits them, as long as take
// returns true. It stops at the first one for which there is no room: later ones do not
// pass it.
func (q *Queue[T]) Admit(take func(T) bool) {
	for first := q.waiters.Front(); first != nil; first = q.waiters.Front() {
		w := first.Value.(*Waiter[T])
		if !take(w.value) {
			return
		}
		q.waiters.Remove(first)
		if w.round > q.round {
			clear(q.served)
		}
		if q.served == nil {
			q.served = map[any]bool{}
		}
		q.served[w.client] = true
		w.place, q.round = nil, w.round
		close(w.admitted)
	}
	clear(q.served)
}

// All yields what the waiters ask for, in the order in which they are admitted.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := q.waiters.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*Waiter[T]).value) {
				return
			}
		}
	}
}

// Remove takes a waiter out of the queue that gives up, and its client's later ones move up. It reports false if the waiter
// was admitted or refused before.
func (q *Queue[T]) Remove(w *Waiter[T]) bool {
	if w.place == nil {
		return false
	}
	free, round := w.place, w.round
	for e := free.Next(); e != nil; e = e.Next() {
		if later := e.Value.(*Waiter[T]); later.client == w.client {
			free.Value, later.place, later.round, free, round = later, free, round, e, later.round
		}
	}
	q.waiters.Remove(free)
	if w.place = nil; q.Len() == 0 {
		clear(q.served)
	}
	return true
}
