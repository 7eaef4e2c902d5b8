package transport

import (
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// owed are the requests of a server's that it has no answer to yet. Each costs a
// goroutine until the server has read its answer, and over HTTP a connection; so
// they are bounded by number and size.
type owed struct {
	mu   sync.Mutex
	room allowance
	open map[jsonrpc.ID]owing
}

// owing is one of them. call is the id of our request on whose way to an answer
// it came, where that is known; 0 otherwise.
type owing struct {
	size int
	call int64
}

// admit counts a request in. It fails if its id is in use, which the go-sdk would
// not answer, or if there is no room.
func (o *owed) admit(id jsonrpc.ID, size int, call int64) (admitted, inUse bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, inUse = o.open[id]; inUse || !o.room.take(size) {
		return false, inUse
	}
	if o.open == nil {
		o.open = make(map[jsonrpc.ID]owing)
	}
	o.open[id] = owing{size, call}
	return true, false
}

// answer makes the id of a request free, as the go-sdk has. The request itself
// counts until the function that is returned is called: its answer waits to be
// written, with a goroutine.
func (o *owed) answer(id jsonrpc.ID) (written func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok := o.open[id]
	if !ok {
		return func() {}
	}
	delete(o.open, id)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.room.giveBack(q.size)
	}
}

// of are the requests that came with a call and are still open.
func (o *owed) of(call int64) (ids []jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, q := range o.open {
		if q.call == call {
			ids = append(ids, id)
		}
	}
	return ids
}
