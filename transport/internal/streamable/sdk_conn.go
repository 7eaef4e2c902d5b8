package streamable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxStreamDelay bounds how long the opening of the event stream may delay the opening of
// the session.
const maxStreamDelay = 2 * time.Second

// sdkConn is the connection over which the client of the go-sdk negotiates. Each request of the
// client is one exchange, and an exchange that fails fails that request only. The client gets
// no other message of the server.
type sdkConn struct {
	n       *negotiation
	answers chan sdkrpc.Message // has room for one: the client waits for each answer
	closed  chan struct{}
	close   sync.Once // closes closed
}

func newSDKConn(n *negotiation) *sdkConn {
	return &sdkConn{n: n, answers: make(chan sdkrpc.Message, 1), closed: make(chan struct{})}
}

// Connect implements [mcp.Transport].
func (c *sdkConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (*sdkConn) SessionID() string { return "" }

// Close implements [mcp.Connection].
func (c *sdkConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

// Read implements [mcp.Connection].
func (c *sdkConn) Read(ctx context.Context) (sdkrpc.Message, error) {
	select {
	case m := <-c.answers:
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection]. It returns when the message is answered. The error fails
// this message, and not the connection.
func (c *sdkConn) Write(ctx context.Context, m sdkrpc.Message) error {
	r, ok := m.(*sdkrpc.Request)
	if !ok {
		return nil // the client got no request that it could answer
	}
	body, err := sdkrpc.EncodeMessage(r)
	if err != nil {
		return jsonrpc.RejectedError(err)
	}
	if !r.IsCall() {
		if httpErr := c.n.sendNotification(ctx, r.Method, body); httpErr != nil {
			return jsonrpc.RejectedError(httpErr)
		}
		return nil
	}
	answer, httpErr := c.n.sendRequest(ctx, r, body)
	if httpErr != nil {
		return jsonrpc.RejectedError(httpErr)
	}
	c.answers <- answer
	return nil
}

// sendRequest sends a request of the go-sdk, and returns its answer.
//
// It decides what a failure of server/discover means for the following initialize, and
// falls back to HTTP+SSE. It stores in lastError what explains a failed start.
func (n *negotiation) sendRequest(ctx context.Context, r *sdkrpc.Request, body []byte) (*sdkrpc.Response, *endpoint.HTTPError) {
	var unauthorized *endpoint.HTTPError // the error of server/discover, if it explains a later error better
	if earlier := n.lastError.Load(); r.Method == "initialize" && earlier != nil {
		switch {
		case earlier.IsUnavailable():
			return nil, earlier
		case earlier.Kind == mcpvisor.KindAuthRequired:
			unauthorized = earlier
		}
	}
	if r.Method == "initialize" && n.era == mcpvisor.EraModern && n.server.spec.Era == mcpvisor.EraModern {
		return nil, n.fail(n.modernEraError())
	}
	// After any error of server/discover the go-sdk sends initialize. While the era is
	// unknown, Timeouts.Negotiate bounds server/discover; otherwise only the start does.
	timeout, version := time.Duration(0), ""
	if r.Method == "server/discover" {
		version = jsonrpc.ModernVersion
		if n.era == mcpvisor.EraAuto {
			timeout = n.server.spec.Timeouts.Negotiate
		}
	}
	id, _ := r.ID.Raw().(int64)
	ex := n.exchanger.table.start(ctx, timeout)
	defer ex.finish()
	defer ex.reserver.share.Release()
	got, httpErr := n.exchanger.roundTrip(ex, id, body, n.header(r.Method, version))
	if r.Method == "initialize" && n.shouldTrySSE(got, httpErr) {
		// ex ends when the body of the rejected POST is read to its end, so the fallback
		// needs its own exchange.
		fallback := n.exchanger.table.start(ctx, 0)
		defer fallback.finish()
		defer fallback.reserver.share.Release()
		got, httpErr = n.retryOverSSE(fallback, id, body, n.header(r.Method, version), got, httpErr)
	}
	switch {
	case httpErr != nil:
		n.eraUncertain = n.eraUncertain || r.Method == "server/discover" && !httpErr.RejectsRequest()
		n.lastError.Store(cmp.Or(unauthorized, httpErr))
		if httpErr.SessionLost || httpErr.ServerGone && n.server.agreed.Load() != nil {
			n.life.lose(httpErr)
		}
		return nil, httpErr
	case got.errorMember != nil:
		n.lastError.Store(unauthorized)
		var rpc *sdkrpc.Error
		if err := jsonrpc.ServerError(got.errorMember); !errors.As(err, &rpc) {
			httpErr := endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q is not valid JSON-RPC", r.Method)
			httpErr.Err = err
			return nil, n.fail(httpErr)
		}
		if r.Method == "server/discover" {
			httpErr := discoveryError(got.errorMember)
			n.eraUncertain = httpErr != nil
			n.lastError.Store(httpErr)
		}
		return &sdkrpc.Response{ID: r.ID, Error: rpc}, nil
	}
	n.lastError.Store(nil)
	if err := jsonrpc.CheckBounds(got.result, jsonrpc.AnswerBounds); err != nil {
		return nil, n.fail(endpoint.InvalidReply(mcpvisor.OutcomeAnswered, "the answer to %q holds %v", r.Method, err))
	}
	if r.Method == "initialize" {
		var result struct{ ProtocolVersion string }
		_ = json.Unmarshal(got.result, &result) // the go-sdk refuses what is not valid
		n.version = result.ProtocolVersion
		if got.sessionID != "" {
			// MCP 2025-11-25, Streamable HTTP, "Session Management": the server assigns the id
			// in the response to initialize. The first id counts; later ids are ignored.
			n.server.sessionID.CompareAndSwap(nil, &got.sessionID)
		}
	}
	return &sdkrpc.Response{ID: r.ID, Result: got.result}, nil
}

// fail stores an error that explains a failed start, and returns it.
func (n *negotiation) fail(httpErr *endpoint.HTTPError) *endpoint.HTTPError {
	n.lastError.Store(httpErr)
	return httpErr
}

// sendNotification sends a notification of the go-sdk. It ignores an error status, unless
// that means that the session is lost or authorization is required. Before the one that ends
// the handshake it opens the event stream of the server.
func (n *negotiation) sendNotification(ctx context.Context, method string, body []byte) *endpoint.HTTPError {
	if method == "notifications/initialized" {
		n.openStream(ctx)
	}
	ex := n.exchanger.table.start(ctx, 0)
	defer ex.finish()
	if httpErr := n.exchanger.post(ex, body, n.header(method, n.version)); httpErr != nil {
		return n.fail(httpErr)
	}
	return nil
}

// openStream opens the event stream of a legacy server. A standaloneStream keeps it open as
// long as the session lasts. A server that sends no header before its first event delays the
// opening of the session by at most maxStreamDelay.
func (n *negotiation) openStream(ctx context.Context) {
	if n.exchanger.sse.Load() != nil { // HTTP+SSE has one stream, which is open already
		return
	}
	stream := &standaloneStream{exchanger: n.exchanger, ex: n.exchanger.table.start(n.life.ctx, 0), version: n.version, ready: make(chan struct{})}
	started := n.life.goTask(func() {
		defer stream.ex.finish()
		stream.maintain()
	})
	if !started {
		stream.ex.finish()
		return
	}
	limit := maxStreamDelay
	if negotiate := n.server.spec.Timeouts.Negotiate; negotiate > 0 {
		limit = min(limit, negotiate)
	}
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case <-stream.ready:
	case <-wait.C:
	case <-ctx.Done():
	}
}

// header returns the header of a POST during the negotiation. version is the one that is
// proposed or agreed; empty for initialize.
func (n *negotiation) header(method, version string) http.Header {
	h := n.server.newHeader(version)
	h["Content-Type"], h["Accept"] = headerJSON, headerBoth
	if jsonrpc.IsModern(version) {
		h["Mcp-Method"] = []string{method}
	}
	return h
}
