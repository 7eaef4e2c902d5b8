package streamable

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reopenDelay is the wait before an event stream that ended is opened again. It is short
// because the end of the stream is the first sign of a crash, and the next connection
// shows whether the server has crashed.
const reopenDelay = 100 * time.Millisecond

// openSDKStream answers the go-sdk's GET with a stream that lasts as long as the session.
//
// Independent of that stream, maintainStream keeps the event stream of the server open:
// it reopens the stream when it ends, and stops if the server does not offer one. Neither
// ends the session. A server that sends no header before its first event delays the
// opening of the session by at most streamHeaderTimeout.
func (s *session) openSDKStream(req *http.Request) (*http.Response, error) {
	if s.sse.Load() != nil { // HTTP+SSE has one stream, which is open already
		return newResponse(req, http.StatusOK, "text/event-stream", s.sdkStream.open(req.Context())), nil
	}
	if !s.startTask() {
		// The session has ended. An error would make the go-sdk repeat the GET for many
		// seconds; it accepts that there is no stream.
		return newResponse(req, http.StatusMethodNotAllowed, "", http.NoBody), nil
	}
	x := s.startExchange(req.Context(), 0)
	ready := make(chan struct{})
	go func() {
		defer s.tasks.Done()
		defer x.finish()
		s.maintainStream(x, req.Header.Get("Mcp-Protocol-Version"), ready)
	}()
	wait := time.NewTimer(s.streamHeaderTimeout())
	defer wait.Stop()
	select {
	case <-ready:
	case <-wait.C:
	case <-x.ctx.Done():
	}
	return newResponse(req, http.StatusOK, "text/event-stream", s.sdkStream.open(req.Context())), nil
}

// maintainStream keeps the standalone event stream of the server open until x ends, or
// until a response shows that the server does not offer one. MCP 2025-11-25, Streamable
// HTTP, "Listening for Messages from the Server": the server answers the GET with an event
// stream, "or else return[s] HTTP 405 Method Not Allowed".
//
// It closes ready after the first response. After an interruption that cannot be resumed,
// or at the end of a stream that is not opened again, it reports a gap, because
// notifications may be lost. version is the protocol version that the go-sdk negotiated.
func (s *session) maintainStream(x *exchange, version string, ready chan struct{}) {
	var (
		lastID      string
		retry       time.Duration
		tries       int     // attempts since the last event
		worked      bool    // a stream has been open
		missed      bool    // notifications may have been lost, because the stream was not open for some time
		unsignalled = ready // nil once it is closed
	)
	signalReady := func() {
		if unsignalled != nil {
			close(unsignalled)
			unsignalled = nil
		}
	}
	defer signalReady()
	for {
		resp, httpErr := x.get(s.endpoint, s.streamHeader(lastID, version))
		switch {
		case x.ctx.Err() != nil:
			if httpErr == nil {
				_ = resp.Body.Close()
			}
			return
		case httpErr != nil && httpErr.ServerGone:
			s.endWithError(httpErr)
			return
		case httpErr != nil && httpErr.Permanent:
			s.abandonStream(httpErr, worked)
			return
		case httpErr != nil:
			// The server is unreachable at the moment; try again below.
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			worked = true
			signalReady()
			if missed && lastID == "" { // without an id the server cannot resume the stream
				s.notifications.NotifyGap()
			}
			if s.readStream(resp, &lastID, &retry) {
				tries = 0
			}
		default:
			// A 404 proves the loss of the session only if a stream has been open, because
			// many servers without event streams answer 404 instead of 405.
			ref := endpoint.NoSession
			if worked {
				ref = s.sessionRef()
			}
			httpErr = s.streamRefusedError(resp, ref)
			if httpErr.SessionLost {
				s.endWithError(httpErr)
				return
			}
			switch status := resp.StatusCode; {
			case status == http.StatusBadRequest && lastID != "":
				lastID = "" // the server may have forgotten the event; a gap is reported when a stream is open
			case !isTransient(status), status == http.StatusConflict && !missed:
				s.abandonStream(httpErr, worked)
				return
			}
			retry = max(retry, httpErr.RetryAfter)
		}
		signalReady()
		missed = true
		wait := reopenDelay
		if tries > 0 || httpErr != nil || retry > 0 {
			wait = nextRetryDelay(tries+1, retry)
		}
		tries++
		if backoff.Sleep(x.ctx, wait) != nil {
			return
		}
	}
}

// abandonStream reports that the standalone stream is not opened again, because of httpErr.
// worked says whether a stream has been open: then notifications that were expected are
// lost, while a server without event streams is nothing unusual.
func (s *session) abandonStream(httpErr *endpoint.HTTPError, worked bool) {
	if !worked {
		s.log.Debug().Str("reply", httpErr.Message).Msg("server offers no event stream; notifications come with answers only")
		return
	}
	s.log.Warn().Str("reply", httpErr.Message).Msg("the server does not open its event stream again; notifications come with answers only")
	s.notifications.NotifyGap()
}

// readStream reads one event stream to its end. It stores the id of the last event and the
// delay that the server asks for. It reports whether an event arrived.
func (s *session) readStream(resp *http.Response, lastID *string, retry *time.Duration) (progress bool) {
	defer resp.Body.Close()
	events := httpbody.NewEventReader(resp.Body, s.spec.Limits.MaxMessageBytes)
	defer events.Close()
	share := s.exchanges.buffer.Share()
	defer share.Release()
	events.Memory = streamMemory{s, &share}
	*retry = 0
	for {
		e, err := events.Next()
		if err != nil {
			return progress
		}
		progress = true
		if e.HasID {
			*lastID = e.ID
		}
		if e.Retry > 0 {
			*retry = e.Retry
		}
		if _, _, httpErr := s.handleEvent(e, noRequestID); httpErr != nil {
			s.log.Debug().Str("event", httpErr.Message).Msg("event skipped")
		}
	}
}

// noRequestID is an id that no request has. On a stream that answers no request, handleMessage
// gets it, and counts every answer as unmatched.
const noRequestID = -1

// sdkStreamSize bounds how many notifications wait for the go-sdk. Further notifications
// are dropped and counted.
const sdkStreamSize = 256

// sdkStream carries notifications of the server to the go-sdk, as an event stream.
// Safe for concurrent use.
type sdkStream struct{ queue chan []byte }

func newSDKStream() *sdkStream { return &sdkStream{queue: make(chan []byte, sdkStreamSize)} }

// push adds a message and never blocks. It reports false if too many messages wait.
func (q *sdkStream) push(text []byte) bool {
	event := append(append([]byte("data: "), jsonrpc.OneLine(text)...), "\n\n"...)
	select {
	case q.queue <- event:
		return true
	default:
		return false
	}
}

// open returns a body that delivers the messages until ctx ends.
func (q *sdkStream) open(ctx context.Context) *sdkStreamBody {
	return &sdkStreamBody{stream: q, ctx: ctx}
}

// sdkStreamBody is the body of one response to the go-sdk's GET. The goroutine that reads
// it owns rest.
type sdkStreamBody struct {
	stream *sdkStream
	ctx    context.Context
	rest   bytes.Reader // what Read has not returned of the current event
}

// Read implements io.Reader.
func (b *sdkStreamBody) Read(p []byte) (int, error) {
	if b.rest.Len() == 0 {
		select {
		case event := <-b.stream.queue:
			b.rest.Reset(event)
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	return b.rest.Read(p)
}

// Close implements io.Closer; the body ends with its context.
func (b *sdkStreamBody) Close() error { return nil }

// followRoots notifies a legacy server whenever the roots change, until unfollow is called.
func (s *session) followRoots(a *agreement) (unfollow func()) {
	if a.modern {
		return func() {}
	}
	return s.handler.FollowRoots(func() { s.notifyServer(a, []byte(jsonrpc.RootsChanged)) })
}
