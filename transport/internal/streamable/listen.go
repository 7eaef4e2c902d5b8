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

// reopenDelay is the wait before an event stream that had worked is opened again. It
// is short because a broken stream is the first sign of a crash, and the next
// connection proves it.
const reopenDelay = 100 * time.Millisecond

// openSDKStream answers the go-sdk's GET with a stream that lasts as long as the
// session.
//
// Behind it maintainStream keeps the real event stream of the server. That is opened
// again when it ends, and given up when the server offers none; neither ends the
// session. A server that sends no header before its first event delays the opening
// by streamHeaderTimeout at most.
func (s *session) openSDKStream(req *http.Request) (*http.Response, error) {
	if s.sse.Load() != nil { // HTTP+SSE has one stream, and that is open
		return plainResponse(req, http.StatusOK, "text/event-stream", s.sdkStream.open(req.Context())), nil
	}
	if !s.startTask() {
		return nil, s.Cause()
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
	return plainResponse(req, http.StatusOK, "text/event-stream", s.sdkStream.open(req.Context())), nil
}

// maintainStream keeps the standalone event stream of the server open until x ends,
// or until the server turns out to offer none. It closes ready after the first
// response. After an interruption that cannot be resumed it reports a gap. version
// is the protocol version that the go-sdk has negotiated.
func (s *session) maintainStream(x *exchange, version string, ready chan struct{}) {
	var (
		lastID string
		retry  time.Duration
		tries  int  // tries since the last event
		worked bool // a stream has been open
		missed bool // notifications may have been lost: a stream broke, or could not be opened at first
		said   = ready
	)
	tell := func() {
		if said != nil {
			close(said)
			said = nil
		}
	}
	defer tell()
	for {
		resp, f := x.get(s.endpoint, s.streamHeader(lastID, version))
		switch {
		case x.ctx.Err() != nil:
			if f == nil {
				_ = resp.Body.Close()
			}
			return
		case f != nil && f.Gone:
			s.endWithError(f)
			return
		case f != nil && f.Permanent:
			s.log.Debug().Str("reply", f.Message).Msg("server gives no event stream without more authorization")
			return
		case f != nil:
			// The server is unreachable at the moment; the next try will show more.
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			worked = true
			tell()
			if missed && lastID == "" { // tries since the last event
				s.notifications.NotifyGap()
			}
			if s.readStream(resp, &lastID, &retry) {
				tries = 0
			}
		default:
			// A 404 proves the loss of the session only if a stream has been open: many
			// servers without event streams answer 404 where 405 is due.
			ref := endpoint.NoSession
			if worked {
				ref = s.sessionRef()
			}
			f = s.streamRefusedError(resp, ref)
			if f.Lost {
				s.endWithError(f)
				return
			}
			if !isTransient(resp.StatusCode) {
				s.log.Debug().Str("reply", f.Message).Msg("server offers no event stream")
				return
			}
			retry = max(retry, f.RetryAfter)
		}
		tell()
		missed = true
		wait := reopenDelay
		if tries > 0 || f != nil || retry > 0 {
			wait = nextPause(tries+1, retry)
		}
		tries++
		if backoff.Sleep(x.ctx, wait) != nil {
			return
		}
	}
}

// readStream reads one stream to its end. It reports whether an event came.
func (s *session) readStream(resp *http.Response, lastID *string, retry *time.Duration) (progress bool) {
	defer resp.Body.Close()
	events := httpbody.NewEventReader(resp.Body, s.spec.Limits.MaxMessageBytes)
	share := s.exchanges.buffer.Share()
	defer share.Release()
	s.reserveForEvents(events, &share)
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
		if _, _, f := s.handleEvent(e, noRequestID); f != nil {
			s.log.Debug().Str("event", f.Message).Msg("event skipped")
		}
	}
}

// noRequestID matches no request: answers do not belong on the standalone stream and
// are counted as unmatched there.
const noRequestID = -1

// sdkStreamSize is how many notifications may wait for the go-sdk. Further ones are
// dropped and counted.
const sdkStreamSize = 256

// sdkStream carries notifications of the server to the go-sdk, as an event stream.
// Safe for concurrent use.
type sdkStream struct{ queue chan []byte }

func newSDKStream() *sdkStream { return &sdkStream{queue: make(chan []byte, sdkStreamSize)} }

// push adds a message and never blocks. It reports false if too many messages wait.
func (i *sdkStream) push(text []byte) bool {
	event := append(append([]byte("data: "), jsonrpc.OneLine(text)...), "\n\n"...)
	select {
	case i.queue <- event:
		return true
	default:
		return false
	}
}

// open returns a body that delivers the messages until ctx ends.
func (i *sdkStream) open(ctx context.Context) *sdkStreamBody {
	return &sdkStreamBody{stream: i, ctx: ctx}
}

type sdkStreamBody struct {
	stream *sdkStream
	ctx    context.Context
	rest   bytes.Reader
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

// followRoots notifies a legacy server whenever the roots change.
func (s *session) followRoots(a *agreement) (unfollow func()) {
	if a.modern {
		return func() {}
	}
	return s.handler.FollowRoots(func() { s.notifyServer(a, []byte(jsonrpc.RootsChanged)) })
}
