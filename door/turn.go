package door

import "github.com/modelcontextprotocol/go-sdk/jsonrpc"

// turn is the place of a request in the row of those about one URI. Requests that change a
// subscription take effect in the order in which they were written; all others are served
// at once. A nil turn waits for nothing.
type turn struct {
	uri    string
	before <-chan struct{} // closed when the request before it has ended; nil without one
	ended  chan struct{}
}

// takeTurn returns the turn of a request; nil if it needs none.
func (c *connection) takeTurn(r *jsonrpc.Request) *turn {
	if r.Method != "resources/subscribe" && r.Method != "resources/unsubscribe" {
		return nil
	}
	p, err := readParams(r.Params)
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &turn{uri: p.URI, before: c.turns[p.URI], ended: make(chan struct{})}
	c.turns[p.URI] = t.ended
	return t
}

// await waits for the request before it, even when its own has been canceled: those after it
// count on that. The request before it ends with the session at the latest.
func (t *turn) await() {
	if t != nil && t.before != nil {
		<-t.before
	}
}

// endTurn lets the next request begin.
func (c *connection) endTurn(t *turn) {
	if t == nil {
		return
	}
	close(t.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[t.uri] == t.ended { // none after it
		delete(c.turns, t.uri)
	}
}
