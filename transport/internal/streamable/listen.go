package streamable

import (
	"bytes"
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

// standaloneStream keeps the event stream of the server open that belongs to no request. MCP
// 2025-11-25, Streamable HTTP, "Listening for Messages from the Server": the server answers
// the GET with an event stream, "or else return[s] HTTP 405 Method Not Allowed".
//
// The goroutine of maintain owns the fields down to missed.
type standaloneStream struct {
	exchanger *exchanger
	ex        *exchange // ends with the stream
	version   string    // that the go-sdk negotiated
	lastID    string    // of the last event that has an id
	retry     time.Duration
	tries     int  // attempts since the last message, or since the server set a wait; see read
	worked    bool // a stream has been open
	missed    bool // notifications may have been lost, because the stream was not open for some time
	// ready is closed after the first response.
	ready    chan struct{}
	answered bool // ready is closed
}

// signalReady closes ready, unless it is closed.
func (s *standaloneStream) signalReady() {
	if !s.answered {
		s.answered = true
		close(s.ready)
	}
}

// maintain keeps the stream open until its exchange ends, or until a response shows that the
// server does not offer one. After an interruption that cannot be resumed, or at the end of
// a stream that is not opened again, it reports a gap, because notifications may be lost.
func (s *standaloneStream) maintain() {
	defer s.signalReady()
	for {
		resp, httpErr := s.ex.get(s.exchanger.server.endpoint, s.exchanger.server.streamHeader(s.version, s.lastID))
		switch {
		case s.ex.ctx.Err() != nil:
			if httpErr == nil {
				_ = resp.Body.Close()
			}
			return
		case httpErr != nil && httpErr.ServerGone:
			s.exchanger.life.lose(httpErr)
			return
		case httpErr != nil && httpErr.Permanent:
			s.abandon(httpErr)
			return
		case httpErr != nil:
			// The server is unreachable at the moment; try again below.
		case resp.StatusCode == http.StatusOK && endpoint.IsEventStream(resp):
			s.worked = true
			s.signalReady()
			if s.missed && s.lastID == "" { // without an id the server cannot resume the stream
				s.exchanger.receiver.notifications.NotifyGap()
			}
			s.read(resp)
		default:
			var again bool
			if httpErr, again = s.refused(resp); !again {
				return
			}
		}
		s.signalReady()
		s.missed = true
		wait := reopenDelay
		if s.tries > 0 || httpErr != nil || s.retry > 0 {
			wait = nextRetryDelay(s.tries+1, s.retry)
		}
		s.tries++
		if backoff.Sleep(s.ex.ctx, wait) != nil {
			return
		}
	}
}

// refused handles a response that is not an event stream. again says whether the stream may
// be opened again.
//
// A 404 proves the loss of the session only if a stream has been open, because many servers
// without event streams answer 404 instead of 405.
func (s *standaloneStream) refused(resp *http.Response) (httpErr *endpoint.HTTPError, again bool) {
	ref := endpoint.NoSession
	if s.worked {
		ref = s.exchanger.sessionRef()
	}
	httpErr = s.exchanger.streamRefusedError(resp, ref)
	switch status := resp.StatusCode; {
	case httpErr.SessionLost:
		s.exchanger.life.lose(httpErr)
		return httpErr, false
	case status == http.StatusBadRequest && s.lastID != "":
		s.lastID = "" // the server may have forgotten the event; a gap is reported when a stream is open
	case !isTransient(status), status == http.StatusConflict && !s.missed:
		s.abandon(httpErr)
		return httpErr, false
	}
	s.retry = max(s.retry, httpErr.RetryAfter)
	return httpErr, true
}

// abandon reports that the stream is not opened again, because of httpErr. If a stream has
// been open, notifications that were expected are lost, while a server without event
// streams is nothing unusual.
func (s *standaloneStream) abandon(httpErr *endpoint.HTTPError) {
	log := &s.exchanger.server.log
	if !s.worked {
		log.Debug().Str("reply", httpErr.Message).Msg("server offers no event stream; notifications come with answers only")
		return
	}
	log.Warn().Str("reply", httpErr.Message).Msg("the server does not open its event stream again; notifications come with answers only")
	s.exchanger.receiver.notifications.NotifyGap()
}

// read reads one response to its end.
func (s *standaloneStream) read(resp *http.Response) {
	defer resp.Body.Close()
	e := s.exchanger
	events := httpbody.NewEventReader(resp.Body, e.server.spec.Limits.MaxMessageBytes)
	defer events.Close()
	share := e.table.buffer.Share()
	defer share.Release()
	events.Reserver = streamReserver{e.life, &share}
	s.retry = 0
	for {
		event, err := events.Next()
		if err != nil {
			return
		}
		if s.tries > 0 && (event.Retry >= firstRetryDelay || isMessage(event)) {
			s.tries = 0 // an id, or a shorter wait, does not set the pace: the stream may end at once each time
		}
		if event.HasID {
			s.lastID = event.ID
		}
		if event.Retry > 0 {
			s.retry = event.Retry
		}
		if _, _, httpErr := e.receiver.handleEvent(event, noRequestID); httpErr != nil {
			e.server.log.Debug().Str("event", httpErr.Message).Msg("event skipped")
		}
	}
}

// isMessage reports whether an event carries a request or a notification.
func isMessage(e httpbody.Event) bool {
	env, ok := jsonrpc.ScanEnvelope(bytes.TrimSpace(e.Data))
	return ok && env.Method != nil
}
