package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// Open implements Session. Connect of the go-sdk runs in its own goroutine, because it may
// outlive Open: shutdown waits for it.
func (s *session) Open(ctx context.Context) error {
	if s.endpointErr != nil {
		s.end(&supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true,
			Message: "the URL cannot be parsed; write it as https://host/path"})
		return s.Cause()
	}
	s.era = s.dialer.knownEra()
	opening := s.startExchange(ctx, 0)
	defer opening.finish()

	s.mu.Lock()
	if !s.startTaskLocked() {
		s.mu.Unlock()
		return s.Cause()
	}
	connecting := make(chan struct{})
	s.connecting = connecting
	s.mu.Unlock()

	failed := make(chan error, 1)
	go func() {
		defer s.tasks.Done()
		defer close(connecting)
		if s.endpoint.Auth != nil {
			s.endpoint.Auth.Attach(opening.ctx)
			s.attached = true
		}
		client, err := s.connect(opening.ctx)
		s.client = client
		failed <- err
	}()
	// Connect cleans up before it returns, and may send a DELETE. Open does not wait for
	// that.
	var err error
	select {
	case err = <-failed:
	case <-opening.ctx.Done():
		err = opening.cause()
	}
	if err != nil {
		s.end(s.openError(ctx, err))
		return s.Cause()
	}
	s.lastError.Store(nil) // it explained the start
	if !s.recordNegotiation() {
		return s.Cause()
	}
	return nil
}

// connect lets the go-sdk negotiate. The go-sdk gets the URL without its secrets, because
// sdkTransport sends the requests to the real URL.
func (s *session) connect(ctx context.Context) (*mcp.ClientSession, error) {
	client := s.handler.NewClient(s.dialer.opts.ClientInfo)
	var options mcp.ClientSessionOptions
	sse := s.dialer.knownSSE()
	if sse {
		if httpErr := s.openSSE(ctx, false); httpErr != nil {
			s.lastError.Store(s.suggestStreamable(httpErr))
			return nil, httpErr
		}
	}
	if sse || s.era == mcpvisor.EraLegacy {
		options.ProtocolVersion = jsonrpc.LegacyVersion
	}
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:     s.endpoint.Target,
		HTTPClient:   &http.Client{Transport: &sdkTransport{s: s}},
		MaxEventSize: -1, // sdkTransport has its own limit, which fails one message and not the session
	}, &options)
}

// recordNegotiation stores the result of the negotiation, and starts the goroutine that
// ends the session when the go-sdk's session ends. It reports false if the session has
// ended.
func (s *session) recordNegotiation() bool {
	result := s.client.InitializeResult()
	a := &agreement{modern: jsonrpc.IsModern(result.ProtocolVersion), info: jsonrpc.NewSessionInfo(result, s.endpoint.Redact)}
	s.recordSSE(&a.info)
	meta, err := jsonrpc.RequestMeta(result.ProtocolVersion, s.dialer.opts.ClientInfo, &s.dialer.opts.Handlers)
	if err != nil {
		s.end(&supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Err: err,
			Message: "ClientInfo cannot be written as JSON; correct it"})
		return false
	}
	a.meta = meta
	a.sender = s.newRequestSender(a)
	s.agreed.Store(a)
	s.handler.SetSession(s.client)
	if !s.eraUncertain {
		s.dialer.rememberEra(a.info.Era)
	}
	if !s.startTask() {
		return false
	}
	unfollow := s.followRoots(a)
	go func() {
		defer s.tasks.Done()
		defer unfollow()
		err := s.client.Wait()
		cause := &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the session ended", Err: s.endpoint.CleanError(err)}
		if err != nil {
			cause.Message = "the session ended: " + s.endpoint.CleanText(err.Error())
		}
		s.end(cause)
	}()
	return true
}

// openError returns the cause of a failed negotiation.
func (s *session) openError(ctx context.Context, err error) *supervisor.Cause {
	if died := s.Cause(); died != nil {
		return died
	}
	var cause *supervisor.Cause
	if httpErr := s.lastError.Load(); httpErr != nil && ctx.Err() == nil {
		cause = httpErr.StartCause()
	} else {
		cause = jsonrpc.OpenCause(ctx, err, nil)
		cause.Message, cause.Err = s.endpoint.CleanText(cause.Message), s.endpoint.CleanError(cause.Err)
		s.explainSSETimeout(cause)
	}
	if cause.Kind != supervisor.CauseSpawn && cause.Kind != supervisor.CauseRequested {
		// The remembered era or transport may be the reason of the failure.
		s.dialer.rememberEra(mcpvisor.EraAuto)
		s.dialer.rememberSSE(false)
	}
	return cause
}

// modernEraError returns the error of an initialize that is not sent, because the spec
// requires the modern era and server/discover failed.
func (s *session) modernEraError() *endpoint.HTTPError {
	detail := ""
	if httpErr := s.lastError.Load(); httpErr != nil {
		if httpErr.Status != http.StatusBadRequest && httpErr.Status != http.StatusMethodNotAllowed {
			return httpErr // this status does not show which era the server speaks
		}
		detail = " (" + httpErr.Message + ")"
	}
	return &endpoint.HTTPError{
		Message: fmt.Sprintf("the server does not speak %s or newer%s, and Era is set to %q", jsonrpc.ModernVersion, detail, mcpvisor.EraModern),
		Hint:    "leave Era empty to negotiate it",
		Kind:    mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeNotSent,
		CauseKind: supervisor.CauseVersion, Permanent: true,
	}
}

// discoveryError interprets the JSON-RPC error that answers server/discover. It returns
// nil for an error that shows that the server speaks the legacy era: an unknown method or
// an unsupported version.
func (s *session) discoveryError(errorm json.RawMessage) *endpoint.HTTPError {
	err := jsonrpc.ServerError(errorm)
	if code, ok := transport.ErrorCode(err); ok && (code == sdkrpc.CodeMethodNotFound || code == jsonrpc.CodeUnsupportedVersion) {
		return nil
	}
	return &endpoint.HTTPError{Message: "the server refused server/discover: " + err.Cause.Error(), Err: err.Cause,
		Kind: mcpvisor.KindRPC, Outcome: mcpvisor.OutcomeAnswered, CauseKind: supervisor.CauseHandshake}
}
