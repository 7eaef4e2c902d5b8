package door

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// outBuffer is how many messages wait for Read without holding their goroutines.
const outBuffer = 16

// connection is one session. Each request has a goroutine, and one more follows the events
// of the client.
type connection struct {
	*door

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	out    chan jsonrpc.Message // answers and progress, for Read
	notify *notifier            // all other notifications, for Read

	mu       sync.Mutex
	turns    map[string]chan struct{}          // of each URI that changes: ends with the last request about it
	inFlight map[jsonrpc.ID]context.CancelFunc // nil value: canceled by the peer, which expects no answer
	serving  int                               // requests whose answers Read has not got; those in inFlight, and more
	draining bool                              // the client is closed: what is in flight is answered, the rest refused
}

func newConnection(d *door) *connection {
	c := &connection{door: d, out: make(chan jsonrpc.Message, outBuffer), notify: newNotifier(), turns: map[string]chan struct{}{}, inFlight: map[jsonrpc.ID]context.CancelFunc{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	events := d.client.Watch(c.ctx, watchedKinds...) // before the lists are read, so that no change is missed
	go c.follow(events, c.readOffers())
	return c
}

// SessionID implements [mcp.Connection]. It is empty.
func (c *connection) SessionID() string { return "" }

// Read implements [mcp.Connection]. After the end of the session it returns io.EOF.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case m := <-c.out:
			return m, nil
		case <-c.notify.wake:
			if m := c.notify.next(); m != nil {
				return m, nil
			}
		case <-c.ctx.Done():
			select {
			case m := <-c.out: // the last answers
				return m, nil
			default:
				return nil, io.EOF
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Write implements [mcp.Connection]. It does not wait for any server.
func (c *connection) Write(_ context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if c.ctx.Err() != nil {
		return fmt.Errorf("%w: the session with mcpvisor has ended", mcp.ErrConnectionClosed)
	}
	switch {
	case !ok || r == nil: // an answer, though nothing was asked
	case !r.ID.IsValid():
		c.receiveNotification(r)
	default:
		c.receiveRequest(r)
	}
	return nil
}

// Close implements [mcp.Connection]. It cancels the requests in flight and does not wait
// for them.
func (c *connection) Close() error {
	c.cancel()
	return nil
}

// receiveRequest starts the goroutine of a request.
func (c *connection) receiveRequest(r *jsonrpc.Request) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	_, twice := c.inFlight[r.ID]
	refused := c.draining
	if !twice && !refused {
		c.inFlight[r.ID] = cancel
		c.serving++
	}
	c.mu.Unlock()
	switch {
	case twice:
		go c.refuse(r, cancel, "a request with this id is in flight")
	case refused:
		go c.refuse(r, cancel, "the client is closed")
	default:
		go c.serve(ctx, cancel, r, c.takeTurn(r))
	}
}

// refuse answers a request that is not served.
func (c *connection) refuse(r *jsonrpc.Request, cancel context.CancelFunc, why string) {
	cancel()
	c.send(&jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}})
}

// serve answers one request, when it is its turn.
func (c *connection) serve(ctx context.Context, cancel context.CancelFunc, r *jsonrpc.Request, t *turn) {
	defer cancel()
	defer c.endServing()
	t.await()
	// Code of the host, such as an interceptor, may end the goroutine. Then this is the answer.
	response := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Method + " ended its goroutine without an answer (runtime.Goexit)"}}
	defer c.respond(response, t)
	result, err := c.answerSafely(ctx, r)
	response.Result, response.Error = result, nil
	if err != nil {
		response.Result, response.Error = nil, err
	}
}

// respond ends a request: the next of its row may begin, and the peer gets the answer if it
// expects one.
func (c *connection) respond(response *jsonrpc.Response, t *turn) {
	c.endTurn(t)
	if c.endRequest(response.ID) {
		c.send(response)
	}
}

// answerSafely is answer with a panic as an error.
func (c *connection) answerSafely(ctx context.Context, r *jsonrpc.Request) (result []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v", r.Method, p)}
		}
	}()
	return c.answer(ctx, r)
}

// send passes a message to Read, unless the session ends first.
func (c *connection) send(m jsonrpc.Message) {
	select {
	case c.out <- m:
	case <-c.ctx.Done():
	}
}

// cancelRequest ends a request that the peer has canceled (MCP, basic, utilities,
// cancellation). It gets no answer.
func (c *connection) cancelRequest(id jsonrpc.ID) {
	c.mu.Lock()
	cancel := c.inFlight[id]
	if cancel != nil {
		c.inFlight[id] = nil
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// endRequest frees the id, which the peer may use again as soon as it has the answer. It
// reports whether the peer expects one.
func (c *connection) endRequest(id jsonrpc.ID) (expected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	expected = c.inFlight[id] != nil
	delete(c.inFlight, id)
	return expected
}

// endServing ends a session that is draining after its last answer.
func (c *connection) endServing() {
	c.mu.Lock()
	c.serving--
	idle := c.draining && c.serving == 0
	c.mu.Unlock()
	if idle {
		c.cancel()
	}
}

// drain ends the session as soon as no request is in flight.
func (c *connection) drain() {
	c.mu.Lock()
	c.draining = true
	idle := c.serving == 0
	c.mu.Unlock()
	c.notify.endListeners()
	if idle {
		c.cancel()
	}
}
