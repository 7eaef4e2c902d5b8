package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
)

// deprecatedSSE is the warning in the status of a session over HTTP+SSE.
const deprecatedSSE = "the server speaks HTTP+SSE (2024-11-05), a transport that is deprecated since 2025-03-26; upgrade the server to a version that speaks Streamable HTTP"

// errInvalidEndpoint marks the error of a server that speaks HTTP+SSE and whose endpoint
// event contains an invalid address.
var errInvalidEndpoint = errors.New("the endpoint event contains an invalid address")

// invalidEndpoint makes the error of an endpoint event. format continues the sentence "the
// server named an endpoint".
func invalidEndpoint(format string, args ...any) *endpoint.HTTPError {
	httpErr := endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server named an endpoint %s", fmt.Sprintf(format, args...))
	httpErr.Err = errInvalidEndpoint
	return httpErr
}

// maxOpeningBytes bounds how many bytes a server may send before its endpoint event.
const maxOpeningBytes = 2 << 20

var errOpeningTooLong = fmt.Errorf("the server sent %d bytes on its event stream without naming an endpoint", maxOpeningBytes)

// openingBody is the body of an event stream. Reads fail after maxOpeningBytes, until
// opened is set. The goroutine that reads the stream owns it.
type openingBody struct {
	r      io.Reader
	left   int  // bytes that may be read before opened is set
	opened bool // the endpoint event was read
}

// Read implements io.Reader.
func (b *openingBody) Read(p []byte) (int, error) {
	if b.opened {
		return b.r.Read(p)
	}
	if b.left == 0 {
		return 0, errOpeningTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// shouldTrySSE reports whether the session tries HTTP+SSE after this outcome of an
// initialize over Streamable HTTP. MCP 2025-11-25, transports, "Backwards Compatibility":
// after "400 Bad Request", "404 Not Found" or "405 Method Not Allowed" the client issues a
// GET, "expecting that this will open an SSE stream and return an endpoint event as the
// first event".
func (n *negotiation) shouldTrySSE(got reply, httpErr *endpoint.HTTPError) bool {
	if n.exchanger.sse.Load() != nil || n.server.spec.Era == mcpvisor.EraModern {
		return false
	}
	switch statusOf(got, httpErr) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// statusOf returns the HTTP status of an answer or an error; 0 if it has none.
func statusOf(got reply, httpErr *endpoint.HTTPError) int {
	if httpErr != nil {
		return httpErr.Status
	}
	return got.status
}

// retryOverSSE repeats over HTTP+SSE an initialize that the server rejected over Streamable
// HTTP. got and refused are the outcome over Streamable HTTP. If the server does not speak
// HTTP+SSE either, retryOverSSE returns that outcome, unless the error of the event stream
// explains more. Timeouts.Negotiate bounds the opening of the stream.
func (n *negotiation) retryOverSSE(fallback *exchange, id int64, body []byte, header http.Header, got reply, refused *endpoint.HTTPError) (reply, *endpoint.HTTPError) {
	ctx := fallback.ctx
	if limit := n.server.spec.Timeouts.Negotiate; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = overdue.WithTimeout(ctx, limit)
		defer cancel()
	}
	httpErr := n.openSSE(ctx, true)
	switch {
	case httpErr == nil:
		return n.exchanger.roundTrip(fallback, id, body, header)
	case errors.Is(httpErr.Err, errInvalidEndpoint):
		return reply{}, httpErr
	case fallback.ctx.Err() == nil:
		n.openingSSE.Store(false)
	}
	if httpErr.ExplainsMore(statusOf(got, refused)) {
		return reply{}, httpErr
	}
	n.server.log.Debug().Str("reply", httpErr.Message).Msg("server does not speak HTTP+SSE either")
	return got, refused
}

// recordSSE stores in info and in the dialer that the session uses HTTP+SSE, if it does.
func (n *negotiation) recordSSE(info *mcpvisor.SessionInfo) {
	if n.exchanger.sse.Load() == nil {
		return
	}
	info.Deprecated = deprecatedSSE
	if !n.dialer.sse.Swap(true) {
		n.server.log.Warn().Str("target", n.server.endpoint.ShownURL).Msg(deprecatedSSE)
	}
}

// suggestStreamable adds a hint to the error of a server that, contrary to its spec, does
// not offer HTTP+SSE.
func (n *negotiation) suggestStreamable(httpErr *endpoint.HTTPError) *endpoint.HTTPError {
	if n.server.spec.HTTP.SSE && httpErr.Status >= 400 && httpErr.Status < 500 && httpErr.Kind != mcpvisor.ErrAuthRequired {
		httpErr.Hint = "leave out the type \"sse\" (HTTP.SSE), so that Streamable HTTP is tried; or correct the path of the URL"
	}
	return httpErr
}

// explainSSETimeout sets the message of a start that timed out while it waited for the
// endpoint event.
func (n *negotiation) explainSSETimeout(cause *supervisor.Cause) {
	if cause.Kind == supervisor.CauseTimeout && n.openingSSE.Load() {
		cause.Message = "the server did not name its endpoint on an event stream in time; check that the URL is that of HTTP+SSE, or raise Timeouts.Start"
	}
}
