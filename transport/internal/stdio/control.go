package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// controlQueue is how many notifications may wait for the go-sdk, and how many
// requests of the server's may be unanswered; controlBytes is how much
// of either that may be. Further notifications are dropped and counted, further
// requests refused. Answers are never dropped.
const (
	controlQueue = 1024
)

// control is the control lane: the side of a [wire] that the go-sdk's client
// drives, as an [mcp.Transport] and [mcp.Connection].
//
// Its Close only detaches it. The go-sdk calls Close under its own lock, and
// whether the session lives on is not its decision.
type control struct {
	w *wire

	mu            sync.Mutex
	inbox         []sdkrpc.Message
	notifications inbound.Allowance
	waiting       map[sdkrpc.ID]bool // the go-sdk's own requests
	probe         probing
	wake          chan struct{}
	closed        chan struct{}
	once          sync.Once

	// patience is how long the answer to server/discover is awaited; then the
	// go-sdk is told that the method does not exist, which makes it fall back to
	// initialize. 0 or less: for as long as the go-sdk does.
	patience time.Duration
}

func newControl(w *wire) *control {
	return &control{w: w, notifications: inbound.Allowance{Max: controlQueue}, waiting: make(map[sdkrpc.ID]bool),
		wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Connect implements mcp.Transport.
func (c *control) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection. Streams have none.
func (c *control) SessionID() string { return "" }

// Close implements mcp.Connection. It returns at once.
func (c *control) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe.stop()
	return nil
}

// Read implements mcp.Connection.
func (c *control) Read(ctx context.Context) (sdkrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.inbox) > 0 {
			m := c.inbox[0]
			c.inbox[0] = nil
			c.inbox = c.inbox[1:]
			if r, ok := m.(*sdkrpc.Request); ok && !r.IsCall() {
				c.notifications.Release(notificationSize(r))
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
		case <-c.w.Dead():
			return nil, io.EOF
		}
	}
}

// Write implements mcp.Connection.
func (c *control) Write(ctx context.Context, m sdkrpc.Message) error {
	line, err := sdkrpc.EncodeMessage(m)
	if err != nil {
		return errRejected(err)
	}
	if r, ok := m.(*sdkrpc.Request); ok && r.IsCall() {
		c.mu.Lock()
		c.waiting[r.ID] = true
		c.mu.Unlock()
		if r.Method == "server/discover" {
			c.beginProbe(r.ID)
		}
	}
	return c.w.send(ctx, append(line, '\n'))
}

// deliver takes a message that is not an answer on the call lane.
func (c *control) deliver(line []byte, env *jsonrpc.Envelope) {
	switch {
	case inbound.IsRequest(env):
		c.admitRequest(line, env)
		return
	case string(env.Method) == inbound.MethodCancelled:
		if env.Malformed || !c.w.asked.HandleCancelled(env.Params) {
			c.w.noise.Malformed.Add(1)
		}
		return
	}
	if env.Method != nil && env.ID == nil && c.flooded() {
		c.w.noise.Dropped.Add(1) // not worth decoding
		return
	}
	if c.refuseBroad(env) {
		return
	}
	m, err := sdkrpc.DecodeMessage(line)
	if err != nil {
		m = repair(env)
	}
	switch m := m.(type) {
	case nil:
		c.w.noise.Malformed.Add(1)
		return
	case *sdkrpc.Request:
		switch {
		case !jsonrpc.WellFormed(m):
			c.w.noise.Malformed.Add(1)
		case m.IsCall(): // has been taken above
			c.w.noise.Malformed.Add(1)
		case !c.admitNotification(m):
			c.w.noise.Dropped.Add(1)
		}
		return
	case *sdkrpc.Response:
		if n, ok := env.NumericID(); ok { // the go-sdk's ids are numbers, also if they come back as text
			m.ID, _ = sdkrpc.MakeID(float64(n))
		}
		if !m.ID.IsValid() || !c.isWaiting(m.ID) {
			c.w.noise.Unmatched.Add(1)
			return
		}
		c.answered(m)
	}
}

// refuseBroad keeps messages from the go-sdk that hold too much to be decoded. It
// reports whether this is one.
func (c *control) refuseBroad(env *jsonrpc.Envelope) bool {
	if env.IsResponse() {
		err := jsonrpc.CheckBounds(env.Result, jsonrpc.AnswerBounds)
		id, ok := env.NumericID()
		return err != nil && ok && c.fail(id, "the answer holds "+err.Error())
	}
	if env.ID == nil && inbound.CheckParams(env.Params) != nil {
		c.w.noise.Malformed.Add(1)
		return true
	}
	return false
}

// isWaiting ends the wait for an answer. It reports whether there was one.
func (c *control) isWaiting(id sdkrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.waiting[id]
	delete(c.waiting, id)
	return was
}

func (c *control) answered(r *sdkrpc.Response) {
	if c.probeHeard(r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushLocked(r)
}

// fail answers a request of the go-sdk's whose answer cannot be used. It reports
// false if no request has that id.
func (c *control) fail(id int64, why string) bool {
	rpcID, err := sdkrpc.MakeID(float64(id))
	if err != nil || !c.isWaiting(rpcID) {
		return false
	}
	c.answered(&sdkrpc.Response{ID: rpcID, Error: &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: why}})
	return true
}

// waitingIDs are the requests of the go-sdk's that wait for an answer.
func (c *control) waitingIDs() (ids []sdkrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.waiting {
		ids = append(ids, id)
	}
	return ids
}

// failWith answers a request of the go-sdk's with an error. It reports false if
// it does not wait any more.
func (c *control) failWith(id sdkrpc.ID, why error) bool {
	if !c.isWaiting(id) {
		return false
	}
	c.answered(&sdkrpc.Response{ID: id, Error: why})
	return true
}

// flooded reports whether no more notifications are taken.
func (c *control) flooded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notifications.Count >= controlQueue
}

// admitNotification passes a notification on, unless too many are waiting.
func (c *control) admitNotification(r *sdkrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.notifications.Acquire(notificationSize(r)) {
		return false
	}
	c.pushLocked(r)
	return true
}

func notificationSize(r *sdkrpc.Request) int { return len(r.Method) + len(r.Params) }

// admitRequest begins to serve a request of the server's, or refuses it. Each
// costs a goroutine until the server has read its answer.
func (c *control) admitRequest(line []byte, env *jsonrpc.Envelope) {
	switch c.w.asked.Accept(line, env, 0) {
	case inbound.Accepted:
	case inbound.MalformedRequest, inbound.IDInUse:
		c.w.noise.Malformed.Add(1)
	case inbound.NoRoom:
		c.refuse(env.ID, inbound.ErrTooMany)
	}
}

// refuse answers a request with an error, unless answers are not being read:
// then it is dropped.
func (c *control) refuse(id []byte, why *sdkrpc.Error) {
	line, ok := inbound.ResponseLine(id, nil, why)
	if !ok || !c.w.postIfRoom(&outgoing{line: append(line, '\n')}, controlQueue) {
		c.w.noise.Dropped.Add(1)
	}
}

func (c *control) pushLocked(m sdkrpc.Message) {
	c.inbox = append(c.inbox, m)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// repair makes what can be made of a message that the go-sdk's decoder
// refuses: an answer with a readable id fails the request that it answers.
func repair(env *jsonrpc.Envelope) sdkrpc.Message {
	n, ok := env.NumericID()
	if !env.IsResponse() || !ok {
		return nil
	}
	id, err := sdkrpc.MakeID(float64(n))
	if err != nil {
		return nil
	}
	if env.Error != nil {
		rpc := jsonrpc.ServerError(env.Error)
		return &sdkrpc.Response{ID: id, Error: rpc.Cause}
	}
	if result := bytes.TrimSpace(env.Result); json.Valid(result) {
		return &sdkrpc.Response{ID: id, Result: bytes.Clone(result)} // the line is the reader's
	}
	return &sdkrpc.Response{ID: id, Error: &sdkrpc.Error{
		Code: sdkrpc.CodeParseError, Message: "the server's answer is not valid JSON"}}
}
