package streamable

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/endpoint"
	"github.com/mcpvisor/mcpvisor/transport/internal/httpbody"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// reopenDelay is the wait before a stream that had worked is opened again. It
// is short because a stream that breaks is the first sign of a server's death,
// and the next connection is the proof.
const reopenDelay = 100 * time.Millisecond

// openSDKStream answers the go-sdk's GET with a stream that lasts as long as the
// session: the inbox. The real stream is kept behind it, opened again when it
// ends and given up when the server does not offer one, none of which is a
// reason to lose the session. Servers that send no header before their first
// event hold up the opening for headerWait only.
func (s *session) openSDKStream(req *http.Request) (*http.Response, error) {
	if s.sse.Load() != nil { // its one stream is open already
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

// maintainStream holds the server's standalone event stream until x ends or the
// server turns out to offer none. It closes ready after the first reply. A stream
// that does not go on where the last one ended is told as a gap. version is the
// protocol version that the go-sdk has negotiated.
func (s *session) maintainStream(x *exchange, version string, ready chan struct{}) {
	var (
		lastID string
		retry  time.Duration
		tries  int  // without an event
		worked bool // there has been a stream
		missed bool // a stream was lost, or was not to be had at first
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
			// Unreachable for the moment, or broken off; the next try will tell.
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			worked = true
			tell()
			if missed && lastID == "" { // nothing says where it should go on
				s.Notifications.NotifyGap()
			}
			if s.readStream(resp, &lastID, &retry) {
				tries = 0
			}
		default:
			// Only a session that had a stream is known to be lost by a 404: many
			// servers without one answer 404 where 405 is due.
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
		if !pause(x.ctx, wait) {
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

// noRequestID is the id of no request: answers do not belong on the standalone
// stream, and are counted there.
const noRequestID = -1

// sdkStreamSize is how many messages may wait for the go-sdk; a server that sends
// faster loses the rest.
const sdkStreamSize = 256

// sdkStream carries messages of the server's to the go-sdk, as an event stream.
type sdkStream struct{ queue chan []byte }

func newSDKStream() *sdkStream { return &sdkStream{queue: make(chan []byte, sdkStreamSize)} }

// push adds a message unless the inbox is full. It never blocks.
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

// followRoots tells a legacy server whenever the roots change.
func (s *session) followRoots(a *agreement) (unfollow func()) {
	if a.modern {
		return func() {}
	}
	return s.answers.FollowRoots(func() { s.notifyServer(a, []byte(jsonrpc.RootsChanged)) })
}
