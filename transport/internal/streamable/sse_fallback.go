package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
)

// deprecatedSSE is the warning in the status of a session over HTTP+SSE.
const deprecatedSSE = "the server speaks HTTP+SSE (2024-11-05), a transport that is deprecated since 2025-03-26; ask for a version of it that speaks Streamable HTTP"

// errInvalidEndpoint marks an error of a server that speaks HTTP+SSE, and names an
// address that cannot be used.
var errInvalidEndpoint = errors.New("the endpoint event is not usable")

func invalidEndpoint(format string, args ...any) *endpoint.HTTPError {
	f := endpoint.InvalidReply(mcpvisor.OutcomeNotSent, "the server named an endpoint %s", fmt.Sprintf(format, args...))
	f.Err = errInvalidEndpoint
	return f
}

// maxOpeningBytes bounds what a server may send before it names its endpoint.
const maxOpeningBytes = 2 << 20

var errOpeningTooLong = fmt.Errorf("the server sent %d bytes on its event stream without naming an endpoint", maxOpeningBytes)

// openingBody is the body of an event stream. It is bounded until the stream is
// opened. The goroutine that reads the stream owns it.
type openingBody struct {
	r      io.Reader
	left   int
	opened bool
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

// knownSSE reports whether the server speaks HTTP+SSE, by its specification or
// because an earlier session found it.
func (d *dialer) knownSSE() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spec.HTTP.SSE || d.sse
}

// rememberSSE remembers for later sessions whether the server speaks HTTP+SSE. It
// reports whether that has changed.
func (d *dialer) rememberSSE(found bool) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.sse != found
	d.sse = found
	return changed
}

// mayBeSSE reports whether the outcome of an initialize over Streamable HTTP calls
// for the older transport: "400 Bad Request", "404 Not Found" or "405 Method Not
// Allowed" (MCP 2025-11-25, transports, "Backwards Compatibility").
func (s *session) mayBeSSE(got reply, f *endpoint.HTTPError) bool {
	if s.sse.Load() != nil || s.spec.Era == mcpvisor.EraModern {
		return false
	}
	switch refusedWith(got, f) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// refusedWith is the HTTP status of an answer or an error; 0 if it has none.
func refusedWith(got reply, f *endpoint.HTTPError) int {
	if f != nil {
		return f.Status
	}
	return got.status
}

// retryOverSSE repeats a refused initialize over the older transport. If the server
// does not speak that either, the refusal stands, unless the error of the event
// stream explains more. Timeouts.Negotiate bounds the opening of that stream.
func (s *session) retryOverSSE(x *exchange, id int64, body []byte, header http.Header, got reply, refused *endpoint.HTTPError) (reply, *endpoint.HTTPError) {
	ctx := x.ctx
	if limit := s.spec.Timeouts.Negotiate; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	f := s.openSSE(ctx, true)
	switch {
	case f == nil:
		return s.roundTrip(x, id, body, header)
	case errors.Is(f.Err, errInvalidEndpoint):
		return reply{}, f
	case x.ctx.Err() == nil:
		s.openingSSE.Store(false)
	}
	if f.ExplainsMore(refusedWith(got, refused)) {
		return reply{}, f
	}
	s.log.Debug().Str("reply", f.Message).Msg("server does not speak HTTP+SSE either")
	return got, refused
}

// recordSSE stores that the session speaks HTTP+SSE, if it does.
func (s *session) recordSSE(info *mcpvisor.SessionInfo) {
	if s.sse.Load() == nil {
		return
	}
	info.Deprecated = deprecatedSSE
	if s.dialer.rememberSSE(true) {
		s.log.Warn().Str("target", s.endpoint.Target).Msg(deprecatedSSE)
	}
}

// suggestStreamable adds advice to the error of an event stream that the
// specification promised, and that the server does not offer.
func (s *session) suggestStreamable(f *endpoint.HTTPError) *endpoint.HTTPError {
	if s.spec.HTTP.SSE && f.Status >= 400 && f.Status < 500 && f.Kind != mcpvisor.KindAuthRequired {
		f.Hint = "leave out the type \"sse\" (HTTP.SSE), so that Streamable HTTP is tried; or correct the path of the URL"
	}
	return f
}

// explainSSETimeout names the endpoint event in the cause of a start that timed out
// while it waited for that.
func (s *session) explainSSETimeout(cause *supervisor.Cause) {
	if cause.Kind == supervisor.CauseTimeout && s.openingSSE.Load() {
		cause.Message = "the server did not name its endpoint on an event stream in time; check that the URL is that of HTTP+SSE, or raise Timeouts.Start"
	}
}
