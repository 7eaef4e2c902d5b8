package streamable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxStreamDelay bounds how long the opening of the event stream may delay the opening of
// the session.
const maxStreamDelay = 2 * time.Second

// sendFunc sends a request once and returns its result.
type sendFunc = func(context.Context, transport.Request) (json.RawMessage, error)

// negotiation is the control channel of a session. The client of the go-sdk negotiates over
// it, through a [jsonrpc.SDKConn]. Then the go-sdk has nothing left to do.
//
// Fields without a remark are set by NewSession and not changed afterwards.
type negotiation struct {
	server    *peer
	life      *liveness
	exchanger *exchanger
	receiver  *receiver
	dialer    *dialer
	// era is what was known about the server when open was called. Set by open.
	era mcpvisor.Era
	// eraUncertain: server/discover failed in a way that does not show which era the server
	// speaks. Then this session uses the legacy era, and the dialer does not remember it.
	// Goroutines of the go-sdk's Connect use it, one after the other.
	eraUncertain bool
	// openingSSE: the session waits for the endpoint event of HTTP+SSE.
	openingSSE atomic.Bool
	// lastError is the error of the last exchange; nil after a success. It explains a failed
	// start.
	lastError atomic.Pointer[endpoint.HTTPError]
	// watch detects a legacy server that was restarted behind its address.
	watch jsonrpc.HandshakeWatch

	// version is what the server has answered to initialize; empty before.
	version string

	began atomic.Bool // open was called
	// connected is closed when the go-sdk's Connect has returned or will not be called. initialized,
	// speaksLegacy and attached are written before that.
	connected    chan struct{}
	initialized  *mcp.InitializeResult // nil: Connect has failed
	speaksLegacy bool                  // the server has said that it speaks the legacy era, too
	attached     bool                  // this session is attached to the authorizer of the endpoint
}

// open negotiates the session. It returns why that failed; nil if it succeeded. Connect of
// the go-sdk runs in its own goroutine, because it may outlive open: close waits for it.
// send sends the requests of callers once the session is open.
func (n *negotiation) open(ctx context.Context, send sendFunc) *supervisor.Cause {
	if n.server.endpoint == nil {
		n.life.end(&supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true,
			Message: "the URL cannot be parsed; write it as https://host/path"})
		return n.life.cause()
	}
	if err := n.dialer.authErr; err != nil {
		n.life.end(&supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: n.server.endpoint.CleanError(err),
			Message: "HTTP.Auth cannot be used: " + n.server.endpoint.CleanText(err.Error())})
		return n.life.cause()
	}
	n.era = n.dialer.knownEra()
	opening := n.exchanger.table.start(ctx, 0)
	defer opening.finish()
	n.began.Store(true)
	if !n.life.startTask() {
		close(n.connected)
		return n.life.cause()
	}
	failed := make(chan error, 1)
	go func() {
		defer n.life.tasks.Done()
		defer close(n.connected)
		if auth := n.server.endpoint.Auth; auth != nil {
			_ = hostcall.Call("Auth", func() error { auth.Attach(opening.ctx); return nil })
			n.attached = true
		}
		initialized, err := n.connect(opening.ctx)
		n.initialized = initialized
		failed <- err
	}()
	var err error
	select {
	case err = <-failed:
	case <-opening.ctx.Done():
		err = opening.cause()
	}
	if err != nil {
		n.life.end(n.openError(ctx, err))
		return n.life.cause()
	}
	n.lastError.Store(nil) // it explained the start
	if !n.record(send) {
		return n.life.cause()
	}
	return nil
}

// connect lets the go-sdk negotiate.
func (n *negotiation) connect(ctx context.Context) (*mcp.InitializeResult, error) {
	sse := n.server.spec.HTTP.SSE || n.dialer.sse.Load()
	if sse {
		if httpErr := n.openSSE(ctx, false); httpErr != nil {
			n.lastError.Store(n.suggestStreamable(httpErr))
			return nil, httpErr
		}
	}
	version := ""
	if sse || n.era == mcpvisor.EraLegacy {
		version = jsonrpc.LegacyVersion
	}
	conn := jsonrpc.NewSDKConn(n.sendRequest, n.sendNotification)
	result, err := n.receiver.handler.Negotiate(ctx, n.dialer.opts.ClientInfo, conn, version)
	n.speaksLegacy = err == nil && conn.SpeaksLegacy()
	return result, err
}

// sendRequest sends a request of the go-sdk, and returns its answer.
//
// It decides what a failure of server/discover means for the following initialize, and
// falls back to HTTP+SSE. It stores in lastError what explains a failed start.
func (n *negotiation) sendRequest(ctx context.Context, r *sdkrpc.Request, body []byte) (*sdkrpc.Response, error) {
	var unauthorized *endpoint.HTTPError // the error of server/discover, if it explains a later error better
	if earlier := n.lastError.Load(); r.Method == "initialize" && earlier != nil {
		switch {
		case earlier.IsUnavailable():
			return nil, earlier
		case earlier.Kind == mcpvisor.ErrAuthRequired:
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
func (n *negotiation) fail(httpErr *endpoint.HTTPError) error {
	n.lastError.Store(httpErr)
	return httpErr
}

// sendNotification sends a notification of the go-sdk. It ignores an error status, unless
// that means that the session is lost or authorization is required. Before the one that ends
// the handshake it opens the event stream of the server.
func (n *negotiation) sendNotification(ctx context.Context, method string, body []byte) error {
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
	select {
	case <-stream.ready:
	case <-time.After(limit):
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

// record stores the result of the negotiation. It reports false if the session has ended.
func (n *negotiation) record(send sendFunc) bool {
	result := n.initialized
	a := &agreement{modern: jsonrpc.IsModern(result.ProtocolVersion), info: jsonrpc.NewSessionInfo(result, n.server.endpoint.Redact)}
	a.info.BothEras = a.modern && n.speaksLegacy
	n.recordSSE(&a.info)
	meta, err := jsonrpc.RequestMeta(result.ProtocolVersion, n.dialer.opts.ClientInfo, &n.dialer.opts.Handlers)
	if err != nil {
		n.life.end(&supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err,
			Message: "ClientInfo cannot be written as JSON; correct it"})
		return false
	}
	a.meta = meta
	a.header = n.server.newHeader(a.info.ProtocolVersion)
	a.header["Content-Type"], a.header["Accept"] = headerJSON, headerBoth
	a.sender = inbound.RequestSender{Modern: a.modern, Tasks: inbound.OffersTasks(a.info), Handler: n.receiver.handler, Handshake: &n.watch, Send: send, Abort: n.life.end,
		Go: func(check func(context.Context)) { n.life.goTask(func() { check(n.life.ctx) }) }}
	n.server.agreed.Store(a)
	close(n.receiver.opened)
	if !n.eraUncertain {
		n.dialer.era.Store(a.info.Era)
	}
	if !a.modern {
		unfollow := n.receiver.handler.FollowRoots(n.exchanger.tellRootsChanged)
		n.life.lifetime.OnDead(unfollow)
	}
	return n.life.cause() == nil
}

// close waits for the go-sdk's Connect, and sends the DELETE that ends the session at the
// server (MCP 2025-11-25, Streamable HTTP, "Session Management"), if the server assigned a
// session id. A failure of the DELETE is only logged. The shutdown of the session calls it.
func (n *negotiation) close(deadline time.Time) {
	if !n.began.Load() {
		return
	}
	<-n.connected // Connect returns soon: its context has ended
	version := ""
	if n.initialized != nil {
		version = n.initialized.ProtocolVersion // the session may have ended before it was recorded
	}
	if n.life.serverGone.Load() || n.exchanger.sessionRef() != endpoint.HeaderSession {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	resp, httpErr := n.server.endpoint.Do(ctx, endpoint.OutgoingRequest{Method: http.MethodDelete, Header: n.server.newHeader(version)})
	if httpErr != nil {
		n.server.log.Debug().Str("reason", httpErr.Message).Msg("session was not deleted at the server")
		return
	}
	_ = resp.Body.Close()
}

// openError returns the cause of a failed negotiation.
func (n *negotiation) openError(ctx context.Context, err error) *supervisor.Cause {
	if died := n.life.cause(); died != nil {
		return died
	}
	var cause *supervisor.Cause
	if httpErr := n.lastError.Load(); httpErr != nil && ctx.Err() == nil {
		cause = httpErr.StartCause()
	} else {
		cause = jsonrpc.OpenCause(ctx, err, nil)
		cause.Message, cause.Err = n.server.endpoint.CleanText(cause.Message), n.server.endpoint.CleanError(cause.Err)
		n.explainSSETimeout(cause)
	}
	if cause.Kind != supervisor.CauseSpawn && cause.Kind != supervisor.CauseRequested {
		// The remembered era or transport may be the reason of the failure.
		n.dialer.era.Store(mcpvisor.EraAuto)
		n.dialer.sse.Store(false)
	}
	return cause
}

// modernEraError returns the error of an initialize that is not sent, because the spec
// requires the modern era and server/discover failed.
func (n *negotiation) modernEraError() *endpoint.HTTPError {
	detail := ""
	if httpErr := n.lastError.Load(); httpErr != nil {
		if httpErr.Status != http.StatusBadRequest && httpErr.Status != http.StatusMethodNotAllowed {
			return httpErr // this status does not show which era the server speaks
		}
		detail = " (" + httpErr.Message + ")"
	}
	return &endpoint.HTTPError{
		Message: fmt.Sprintf("the server does not speak %s or newer%s, and Era is set to %q", jsonrpc.ModernVersion, detail, mcpvisor.EraModern),
		Hint:    "leave Era empty to negotiate it",
		Kind:    mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeNotSent,
		CauseKind: supervisor.CauseVersion, Permanent: true,
	}
}

// discoveryError interprets the JSON-RPC error that answers server/discover. It returns
// nil for an error that shows that the server speaks the legacy era: an unknown method or
// an unsupported version.
func discoveryError(errorm json.RawMessage) *endpoint.HTTPError {
	err := jsonrpc.ServerError(errorm)
	if code, ok := transport.ErrorCode(err); ok && (code == sdkrpc.CodeMethodNotFound || code == jsonrpc.CodeUnsupportedVersion) {
		return nil
	}
	return &endpoint.HTTPError{Message: "the server refused server/discover: " + err.Cause.Error(), Err: err.Cause,
		Kind: mcpvisor.ErrRPC, Outcome: mcpvisor.OutcomeAnswered, CauseKind: supervisor.CauseHandshake}
}
