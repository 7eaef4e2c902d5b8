package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// handshake sends the messages of the go-sdk's client, which negotiates with one process, and
// knows how that has answered server/discover. Its requests have the ids that the go-sdk gave
// them, which are smaller than those of all other requests.
type handshake struct {
	conn *conn
	// discoverTimeout is how long to wait for the response to server/discover; 0 or less
	// leaves the timeout to the go-sdk. Set before the handshake.
	discoverTimeout time.Duration

	mu       sync.Mutex // guards the fields below; locked after that of the table
	discover probeState // of the last server/discover
	// modern: the response is a result, not an error. late: it came after the timeout. It still
	// shows which era the server speaks.
	modern, late bool
	answered     chan struct{} // closed by the response; nil before server/discover
	onLate       func()        // called at a late result; nil: see onLateResult
}

type probeState uint8

const (
	probeNone    probeState = iota // server/discover was not sent
	probeSent                      // no response yet
	probeGivenUp                   // no response within the timeout
	probeAnswered
)

// notify sends a notification of the go-sdk.
func (h *handshake) notify(ctx context.Context, _ string, text []byte) error {
	return h.conn.sendLine(ctx, append(text, '\n'))
}

// call sends a request of the go-sdk, and returns its answer.
//
// A server/discover that is not answered in time stays in the table. The answer is then
// "method not found", so that the go-sdk falls back to initialize: "Any non-modern error or no
// response within a reasonable timeout" means a legacy server (2026-07-28, versioning, stdio).
func (h *handshake) call(ctx context.Context, r *sdkrpc.Request, text []byte) (*sdkrpc.Response, error) {
	p := h.conn.newPending()
	p.entry.ID, _ = r.ID.Raw().(int64)
	p.line.text, p.stream = append(text, '\n'), true // not a call, for which a caller may read
	var timeout chan struct{}
	isDiscover := r.Method == "server/discover"
	if isDiscover {
		h.mu.Lock()
		h.discover, h.answered = probeSent, make(chan struct{})
		h.mu.Unlock()
		if h.discoverTimeout > 0 {
			timeout = make(chan struct{})
			defer overdue.AfterFunc(h.discoverTimeout, func() { close(timeout) }).Stop()
		}
	}
	if !h.conn.postRequest(p) {
		return nil, io.ErrClosedPipe
	}
	var a answer
	select {
	case a = <-p.answer:
	case <-timeout:
		if h.giveUpDiscover(p) {
			return &sdkrpc.Response{ID: r.ID, Error: &sdkrpc.Error{
				Code: sdkrpc.CodeMethodNotFound, Message: "server/discover was not answered in time"}}, nil
		}
		a = <-p.answer
	case <-ctx.Done():
		if _, gone := h.conn.giveUpRequest(p); !gone {
			return nil, ctx.Err()
		}
		a = <-p.answer
	}
	defer a.settleShare(nil)
	var died *supervisor.Cause
	if a.err != nil && errors.As(a.err, &died) {
		return nil, died
	}
	if isDiscover {
		h.recordAnswer(a.err == nil, false)
	}
	return a.response(r.ID), nil
}

// response returns an answer as the go-sdk reads it.
func (a *answer) response(id sdkrpc.ID) *sdkrpc.Response {
	switch {
	case a.err == nil:
		if err := jsonrpc.CheckBounds(a.result, jsonrpc.AnswerBounds); err != nil {
			return &sdkrpc.Response{ID: id, Error: &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: "the answer holds " + err.Error()}}
		}
		return &sdkrpc.Response{ID: id, Result: bytes.TrimSpace(a.result)}
	case a.err.Kind == mcpvisor.ErrRPC:
		return &sdkrpc.Response{ID: id, Error: a.err.Cause}
	}
	text := a.err.Cause.Error()
	if a.err.Hint != "" {
		text += "; " + a.err.Hint
	}
	return &sdkrpc.Response{ID: id, Error: &sdkrpc.Error{Code: sdkrpc.CodeParseError, Message: text}}
}

// giveUpDiscover records that server/discover was not answered in time. It reports false if
// the answer has come meanwhile.
func (h *handshake) giveUpDiscover(p *pending) bool {
	h.conn.table.Mu.Lock()
	defer h.conn.table.Mu.Unlock()
	if h.conn.table.Open.Get(p.entry.ID) != &p.entry {
		return false
	}
	p.late = func(modern bool) { h.recordAnswer(modern, true) }
	h.mu.Lock()
	defer h.mu.Unlock()
	h.discover = probeGivenUp
	return true
}

// recordAnswer records the response to server/discover.
func (h *handshake) recordAnswer(modern, late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.discover, h.modern, h.late = probeAnswered, modern, late
	close(h.answered)
	if late && modern && h.onLate != nil {
		h.onLate()
	}
}

// onLateResult has f called once if server/discover is answered with a result after its
// timeout; at once if that has happened. f must not block: the reader of the connection
// calls it, with the mutex of the handshake.
func (h *handshake) onLateResult(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.late && h.modern:
		f()
	case h.discover == probeGivenUp:
		h.onLate = f
	}
}

// state returns the state of server/discover.
func (h *handshake) state() probeState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.discover
}

// isUnanswered reports whether server/discover was sent and no response has come.
func (h *handshake) isUnanswered() bool {
	s := h.state()
	return s == probeSent || s == probeGivenUp
}

// awaitLateAnswer reports whether the server answered server/discover with a result
// after the deadline. A server that starts slowly handles all waiting messages at once
// and in any order, so the answer may still be on its way.
func (h *handshake) awaitLateAnswer() bool {
	if h.state() == probeGivenUp {
		select {
		case <-h.answered:
		case <-h.conn.lifetime.Dead():
		case <-time.After(evidenceTimeout):
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late && h.modern
}
