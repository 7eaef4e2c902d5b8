package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// controlQueue is how many notifications wait for the go-sdk at most; more are
// dropped and counted. Answers and requests are never dropped.
const controlQueue = 1024

// control is the control lane: the side of a [wire] that the go-sdk's client
// drives, as an [mcp.Transport] and [mcp.Connection].
//
// Its Close only detaches it. The go-sdk calls Close under its own lock, and
// whether the session lives on is not its decision.
type control struct {
	w *wire

	mu            sync.Mutex
	inbox         []jsonrpc.Message
	notifications int
	wake          chan struct{}
	closed        chan struct{}
	once          sync.Once

	// probing is the id of the server/discover request under way. Its answer is
	// awaited for patience at most; then the go-sdk is told that the method does
	// not exist, which makes it fall back to initialize.
	probing    atomic.Pointer[jsonrpc.ID]
	patience   time.Duration
	probeClock atomic.Pointer[time.Timer]
	discovered atomic.Bool // server/discover was answered with a result, perhaps late
}

func newControl(w *wire) *control {
	return &control{w: w, wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Connect implements mcp.Transport.
func (c *control) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection. Streams have none.
func (c *control) SessionID() string { return "" }

// Close implements mcp.Connection. It returns at once.
func (c *control) Close() error {
	c.once.Do(func() { close(c.closed) })
	if t := c.probeClock.Load(); t != nil {
		t.Stop()
	}
	return nil
}

// Read implements mcp.Connection.
func (c *control) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.inbox) > 0 {
			m := c.inbox[0]
			c.inbox[0] = nil
			c.inbox = c.inbox[1:]
			if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() {
				c.notifications--
			}
			c.mu.Unlock()
			return m, nil
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case <-c.w.dead:
			return nil, io.EOF
		}
	}
}

// Write implements mcp.Connection.
func (c *control) Write(ctx context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return errRejected(err)
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "server/discover" && c.patience > 0 {
		id := r.ID
		c.probing.Store(&id)
		c.probeClock.Store(time.AfterFunc(c.patience, func() { c.giveUpProbe(id) }))
	}
	return c.w.send(ctx, append(line, '\n'))
}

// giveUpProbe answers a server/discover that the server does not answer. "Any
// non-modern error or no response within a reasonable timeout" means a legacy
// server (2026-07-28, versioning, stdio).
func (c *control) giveUpProbe(id jsonrpc.ID) {
	p := c.probing.Load()
	if p == nil || *p != id || !c.probing.CompareAndSwap(p, nil) {
		return
	}
	c.push(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "server/discover was not answered in time"}})
}

// isProbing reports whether a server/discover is under way.
func (c *control) isProbing() bool { return c.probing.Load() != nil }

// deliver takes a message that is not an answer on the call lane.
func (c *control) deliver(line []byte, env *envelope) {
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		m = repair(env)
	}
	switch m := m.(type) {
	case nil:
		c.w.noise.junk.Add(1)
		return
	case *jsonrpc.Request:
		if !m.IsCall() && !c.admit() {
			c.w.noise.dropped.Add(1)
			return
		}
	case *jsonrpc.Response:
		if !m.ID.IsValid() {
			c.w.noise.unmatched.Add(1)
			return
		}
		if p := c.probing.Load(); p != nil && *p == m.ID {
			c.probing.CompareAndSwap(p, nil)
			if t := c.probeClock.Load(); t != nil {
				t.Stop()
			}
			c.discovered.Store(m.Error == nil)
		}
	}
	c.push(m)
}

// admit counts a notification in, unless too many are waiting.
func (c *control) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notifications >= controlQueue {
		return false
	}
	c.notifications++
	return true
}

func (c *control) push(m jsonrpc.Message) {
	c.mu.Lock()
	c.inbox = append(c.inbox, m)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// repair makes what can be made of a message that the go-sdk's decoder
// refuses: an answer with a readable id fails the request that it answers.
func repair(env *envelope) jsonrpc.Message {
	n, ok := env.numericID()
	if !env.isResponse() || !ok {
		return nil
	}
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		return nil
	}
	if env.errorm != nil {
		rpc := rpcError(env.errorm)
		return &jsonrpc.Response{ID: id, Error: rpc.Cause}
	}
	if result := bytes.TrimSpace(env.result); json.Valid(result) {
		return &jsonrpc.Response{ID: id, Result: result}
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeParseError, Message: "the server's answer is not valid JSON"}}
}
