package framing

import "sync"

// room bounds the bytes of the long messages that are being received on one stream. A message reserves
// all its bytes before its sender gets credit, in the order in which messages have begun. So messages
// that have arrived in part never wait for each other. A message that exceeds the limit waits until
// no other one has room. Safe for concurrent use.
type room struct {
	limit int

	mu    sync.Mutex
	used  int      // guarded by mu
	queue []*Place // guarded by mu
}

// Place is the reservation of one long message in the room of its stream, or its position in the queue for
// one.
type Place struct {
	room    *room
	bytes   int
	held    bool   // guarded by the mutex of the room
	granted func() // called once, when there is room; it must not block
}

// reserve calls granted as soon as there is room, possibly before it returns.
func (r *room) reserve(bytes int, granted func()) *Place {
	p := &Place{room: r, bytes: bytes, granted: granted}
	r.mu.Lock()
	r.queue = append(r.queue, p)
	due := r.admitLocked()
	r.mu.Unlock()
	callAll(due)
	return p
}

// Release ends the reservation, or leaves the queue. p may be nil.
func (p *Place) Release() {
	if p == nil {
		return
	}
	r := p.room
	r.mu.Lock()
	if p.held {
		p.held = false
		r.used -= p.bytes
	} else {
		for i, waiting := range r.queue {
			if waiting == p {
				r.queue = append(r.queue[:i], r.queue[i+1:]...)
				break
			}
		}
	}
	due := r.admitLocked()
	r.mu.Unlock()
	callAll(due)
}

func (r *room) admitLocked() (due []func()) {
	for len(r.queue) > 0 {
		p := r.queue[0]
		if r.used > 0 && r.used+p.bytes > r.limit {
			break
		}
		r.queue, p.held = r.queue[1:], true
		r.used += p.bytes
		due = append(due, p.granted)
	}
	return due
}

func callAll(due []func()) {
	for _, f := range due {
		f()
	}
}
