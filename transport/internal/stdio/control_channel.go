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

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxControlQueue bounds the notifications that wait for the go-sdk, and the requests
// of the server that are not answered yet. inbound.MaxHeldBytes bounds the bytes of
// either. Further notifications are dropped and counted; further requests are refused.
// Responses are never dropped.
const maxControlQueue = 1024

// controlChannel is the side of a [conn] that the go-sdk's client drives, as an
// [mcp.Transport] and [mcp.Connection]. It carries the handshake.
//
// Its Close only detaches it from the go-sdk, which calls Close with a lock held. The
// session decides when the connection ends. From then on the handler of the session gets
// the notifications.
type controlChannel struct {
	// Set by newControlChannel, constant afterwards.
	conn   *conn
	wake   chan struct{} // holds one; wakes Read
	closed chan struct{} // closed by Close

	// discoverTimeout is how long to wait for the response to server/discover; 0 or less
	// leaves the timeout to the go-sdk. Set before the handshake.
	discoverTimeout time.Duration

	mu            sync.Mutex         // guards the fields below
	detached      bool               // Close was called
	inbox         []sdkrpc.Message   // what Read returns next
	notifications inbound.Allowance  // counts the notifications in inbox
	waiting       map[sdkrpc.ID]bool // the requests of the go-sdk that have no response yet
	probe         discoverProbe
}

func newControlChannel(c *conn) *controlChannel {
	return &controlChannel{conn: c, notifications: inbound.Allowance{Max: maxControlQueue}, waiting: make(map[sdkrpc.ID]bool),
		wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Connect implements [mcp.Transport].
func (ch *controlChannel) Connect(context.Context) (mcp.Connection, error) { return ch, nil }

// SessionID implements [mcp.Connection]. Sessions over streams have no id.
func (ch *controlChannel) SessionID() string { return "" }

// Close implements [mcp.Connection]. It returns at once.
func (ch *controlChannel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.detached {
		return nil
	}
	ch.detached = true
	close(ch.closed)
	ch.probe.stop()
	for _, m := range ch.inbox {
		if r, ok := m.(*sdkrpc.Request); ok {
			ch.handleNotification(r)
		}
	}
	ch.inbox = nil
	if len(ch.waiting) == 0 { // a late response to server/discover may be waited for
		ch.waiting = nil
	}
	return nil
}

func (ch *controlChannel) isDetached() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.detached
}

// skipNotification reports whether a notification needs no decoding, because the handler
// does not know its method or because it is malformed.
func (ch *controlChannel) skipNotification(line []byte, env *jsonrpc.Envelope) bool {
	method, err := jsonscan.ReadString(env.Method)
	if err == nil && method == inbound.MethodElicited {
		return false
	}
	if err != nil || env.Malformed || !jsonrpc.IsVersion2(line) || !jsonrpc.WellFormed(&sdkrpc.Request{Method: method, Params: env.Params}) {
		ch.conn.discarded.Malformed.Add(1)
	}
	return true
}

// handleNotification handles a notification that comes after the handshake.
func (ch *controlChannel) handleNotification(r *sdkrpc.Request) {
	if h := ch.conn.serverRequests.Handler; h != nil {
		h.HandleNotification(r)
	}
}

// Read implements [mcp.Connection].
func (ch *controlChannel) Read(ctx context.Context) (sdkrpc.Message, error) {
	for {
		ch.mu.Lock()
		if len(ch.inbox) > 0 {
			m := ch.inbox[0]
			ch.inbox[0] = nil
			ch.inbox = ch.inbox[1:]
			if r, ok := m.(*sdkrpc.Request); ok && !r.IsCall() {
				ch.notifications.Release(notificationSize(r))
			}
			ch.mu.Unlock()
			return m, nil
		}
		ch.mu.Unlock()
		select {
		case <-ch.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ch.closed:
			return nil, io.EOF
		case <-ch.conn.lifetime.Dead():
			return nil, io.EOF
		}
	}
}

// Write implements [mcp.Connection].
func (ch *controlChannel) Write(ctx context.Context, m sdkrpc.Message) error {
	line, err := sdkrpc.EncodeMessage(m)
	if err != nil {
		return jsonrpc.RejectedError(err)
	}
	if r, ok := m.(*sdkrpc.Request); ok && r.IsCall() {
		ch.mu.Lock()
		if ch.waiting == nil {
			ch.waiting = make(map[sdkrpc.ID]bool)
		}
		ch.waiting[r.ID] = true
		ch.mu.Unlock()
		if r.Method == "server/discover" {
			ch.startProbe(r.ID)
		}
	}
	return ch.conn.sendLine(ctx, append(line, '\n'))
}

// deliver handles a message that is not a response of the call channel. The goroutine
// that reads calls it.
func (ch *controlChannel) deliver(line []byte, env *jsonrpc.Envelope) {
	switch {
	case inbound.IsRequest(env):
		ch.admitRequest(line, env)
		return
	case string(env.Method) == inbound.MethodCancelled:
		if env.Malformed || !ch.conn.serverRequests.HandleCancelled(env.Params) {
			ch.conn.discarded.Malformed.Add(1)
		}
		return
	}
	if env.Method != nil && env.ID == nil && ch.notificationsFull() {
		ch.conn.discarded.Dropped.Add(1) // without the cost of decoding it
		return
	}
	if ch.rejectOverBounds(env) {
		return
	}
	if env.Method != nil && ch.isDetached() && ch.skipNotification(line, env) {
		return
	}
	m := ch.responseOf(env)
	if m == nil {
		m, _ = sdkrpc.DecodeMessage(line)
	}
	switch m := m.(type) {
	case nil:
		ch.conn.discarded.Malformed.Add(1)
	case *sdkrpc.Request:
		switch {
		case !jsonrpc.WellFormed(m), m.IsCall(): // well-formed requests were admitted above
			ch.conn.discarded.Malformed.Add(1)
		case !ch.admitNotification(m):
			ch.conn.discarded.Dropped.Add(1)
		}
	case *sdkrpc.Response:
		if n, ok := env.NumericID(); ok { // some servers return the numeric ids of the go-sdk as strings
			m.ID, _ = sdkrpc.MakeID(float64(n))
		}
		if !m.ID.IsValid() || !ch.removeWaiting(m.ID) {
			ch.conn.discarded.Unmatched.Add(1)
			return
		}
		ch.passResponse(m)
	}
}

// rejectOverBounds keeps messages from the go-sdk that hold too many values to be
// decoded. It reports whether this is one, and fails the request that it answers.
func (ch *controlChannel) rejectOverBounds(env *jsonrpc.Envelope) bool {
	if env.IsResponse() {
		err := jsonrpc.CheckBounds(env.Result, jsonrpc.AnswerBounds)
		id, ok := env.NumericID()
		return err != nil && ok && ch.failRequest(id, "the answer holds "+err.Error())
	}
	if env.ID == nil && inbound.CheckParams(env.Params) != nil {
		ch.conn.discarded.Malformed.Add(1)
		return true
	}
	return false
}

// removeWaiting removes a request of the go-sdk from those without a response. It
// reports whether the request was one of them.
func (ch *controlChannel) removeWaiting(id sdkrpc.ID) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	was := ch.waiting[id]
	delete(ch.waiting, id)
	return was
}

// passResponse passes a response to the go-sdk, except for a late one to
// server/discover.
func (ch *controlChannel) passResponse(r *sdkrpc.Response) {
	if ch.recordProbeAnswer(r) {
		return
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.pushLocked(r)
}

// failRequest answers a request of the go-sdk whose response cannot be used. It reports
// false if no request with this id waits.
func (ch *controlChannel) failRequest(id int64, why string) bool {
	rpcID, err := sdkrpc.MakeID(float64(id))
	return err == nil && ch.failRequestWith(rpcID, &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: why})
}

// failRequestWith answers a request of the go-sdk with an error. It reports false if no
// request with this id waits.
func (ch *controlChannel) failRequestWith(id sdkrpc.ID, why error) bool {
	if !ch.removeWaiting(id) {
		return false
	}
	ch.passResponse(&sdkrpc.Response{ID: id, Error: why})
	return true
}

// waitingIDs returns the ids of the go-sdk's requests that have no response yet.
func (ch *controlChannel) waitingIDs() (ids []sdkrpc.ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for id := range ch.waiting {
		ids = append(ids, id)
	}
	return ids
}

// notificationsFull reports whether the next notification is dropped.
func (ch *controlChannel) notificationsFull() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.notifications.Count >= maxControlQueue
}

// admitNotification passes a notification to the go-sdk, or to the handler after the
// handshake. It reports false if too many wait already.
func (ch *controlChannel) admitNotification(r *sdkrpc.Request) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.detached {
		ch.handleNotification(r)
		return true
	}
	if !ch.notifications.Acquire(notificationSize(r)) {
		return false
	}
	ch.pushLocked(r)
	return true
}

func notificationSize(r *sdkrpc.Request) int { return len(r.Method) + len(r.Params) }

// admitRequest begins to serve a request of the server, or refuses it. A request that
// is served has a goroutine until the server has read the response.
func (ch *controlChannel) admitRequest(line []byte, env *jsonrpc.Envelope) {
	switch ch.conn.serverRequests.Accept(line, env, 0) {
	case inbound.Accepted:
	case inbound.MalformedRequest, inbound.IDInUse:
		ch.conn.discarded.Malformed.Add(1)
	case inbound.NoRoom:
		ch.refuseRequest(env.ID, inbound.ErrTooMany)
	}
}

// refuseRequest answers a request of the server with an error. If the server does not
// read its responses, the request is dropped and counted instead.
func (ch *controlChannel) refuseRequest(id []byte, why *sdkrpc.Error) {
	line, ok := inbound.ResponseLine(id, nil, why)
	if !ok || !ch.conn.postLineIfRoom(&outgoing{text: append(line, '\n')}, maxControlQueue) {
		ch.conn.discarded.Dropped.Add(1)
	}
}

// pushLocked passes a message to the go-sdk, unless it has been detached.
func (ch *controlChannel) pushLocked(m sdkrpc.Message) {
	if ch.detached {
		return
	}
	ch.inbox = append(ch.inbox, m)
	select {
	case ch.wake <- struct{}{}:
	default:
	}
}

// responseOf builds a response without the go-sdk's decoder, which allocates 32 KB for each
// message and rejects some that are readable. It returns nil if the message is not a
// response with a numeric id. The result or error is kept if it is readable, the error
// without secrets; otherwise the response is an error.
func (ch *controlChannel) responseOf(env *jsonrpc.Envelope) sdkrpc.Message {
	n, ok := env.NumericID()
	if !env.IsResponse() || !ok {
		return nil
	}
	id, err := sdkrpc.MakeID(float64(n))
	if err != nil {
		return nil
	}
	if env.Error != nil {
		rpc := jsonrpc.ServerError(ch.conn.redactor.JSON(env.Error))
		return &sdkrpc.Response{ID: id, Error: rpc.Cause}
	}
	if result := bytes.TrimSpace(env.Result); json.Valid(result) {
		return &sdkrpc.Response{ID: id, Result: bytes.Clone(result)} // the reader reuses the memory of the line
	}
	return &sdkrpc.Response{ID: id, Error: &sdkrpc.Error{
		Code: sdkrpc.CodeParseError, Message: "the server's answer is not valid JSON"}}
}

// discoverProbe is the state of the last server/discover of the handshake. It is kept
// after the timeout, because a late answer still shows which era the server speaks. The
// mutex of the control channel guards it.
type discoverProbe struct {
	id        sdkrpc.ID
	state     probeState
	succeeded bool // the response is a result, not an error
	late      bool // the response came after the timeout
	timer     *time.Timer
	answered  chan struct{} // closed by the response
	onLate    func()        // called at a late result; nil: see onLateResult
}

type probeState uint8

const (
	probeNone    probeState = iota // server/discover was not sent
	probeSent                      // no response yet
	probeGivenUp                   // no response within the timeout
	probeAnswered
)

// isUnanswered reports whether server/discover was sent and no response has come.
func (s probeState) isUnanswered() bool { return s == probeSent || s == probeGivenUp }

func (p *discoverProbe) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// startProbe records that the go-sdk sends server/discover, and starts its timeout.
func (ch *controlChannel) startProbe(id sdkrpc.ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.probe.stop()
	ch.probe = discoverProbe{id: id, state: probeSent, answered: make(chan struct{})}
	if ch.discoverTimeout > 0 {
		ch.probe.timer = time.AfterFunc(ch.discoverTimeout, func() { ch.giveUpProbe(id) })
	}
}

// giveUpProbe passes "method not found" to the go-sdk in place of a response to
// server/discover, so that it falls back to initialize. "Any non-modern error or no
// response within a reasonable timeout" means a legacy server (2026-07-28, versioning,
// stdio).
func (ch *controlChannel) giveUpProbe(id sdkrpc.ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.probe.state != probeSent || ch.probe.id != id {
		return
	}
	ch.probe.state = probeGivenUp
	ch.pushLocked(&sdkrpc.Response{ID: id, Error: &sdkrpc.Error{
		Code: sdkrpc.CodeMethodNotFound, Message: "server/discover was not answered in time"}})
}

// recordProbeAnswer records the response if it answers server/discover. It reports
// whether the response is late: the go-sdk no longer expects it.
func (ch *controlChannel) recordProbeAnswer(r *sdkrpc.Response) (late bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := &ch.probe
	if p.id != r.ID || p.state != probeSent && p.state != probeGivenUp {
		return false
	}
	p.stop()
	p.late, p.succeeded = p.state == probeGivenUp, r.Error == nil
	p.state = probeAnswered
	close(p.answered)
	if p.onLate != nil && p.succeeded {
		p.onLate()
	}
	return p.late
}

// onLateResult has f called once if server/discover is answered with a result after its
// timeout; at once if that has happened. f must not block: the reader of the connection
// calls it, with the mutex of the control channel.
func (ch *controlChannel) onLateResult(f func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch p := &ch.probe; {
	case p.late && p.succeeded:
		f()
	case p.state == probeGivenUp:
		p.onLate = f
	}
}

// probeResult returns a copy of the state of server/discover.
func (ch *controlChannel) probeResult() discoverProbe {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.probe
}
