package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
)

// stream answers GET: it sends the notifications of a session before 2026-07-28. A second stream of a
// session replaces the first one, which may be left over from a broken connection.
//
// An idle stream costs little more than the buffers of its connection and the stack of its goroutine,
// which waits in deliver. The frames from here to deliver must stay small: then 8 KB of stack are enough
// to write the header, and otherwise each stream keeps 16 KB. So all steps before the wait are functions
// of their own.
func (x *exchange) stream() {
	hs := x.streamSession()
	if hs == nil {
		return
	}
	defer x.server.closeSession(hs)
	defer x.endWithToken()()
	hs.peer.Stream(1)
	defer hs.peer.Stream(-1)
	x.deliver(hs)
}

// streamSession returns the session of a request for a stream. The caller closes it. If the request gets
// no stream, streamSession answers it and returns nil.
func (x *exchange) streamSession() *httpSession {
	if !x.isOfSession("has no stream of its own; use subscriptions/listen") {
		return nil
	}
	if !httpwire.AcceptsStream(x.r) {
		http.Error(x.w, "Accept must have text/event-stream", http.StatusNotAcceptable)
		return nil
	}
	hs, err := x.openSession(x.r.Header.Get(sessionHeader))
	switch {
	case errors.Is(err, errManySessions):
		x.busy(err.Error())
		return nil
	case err != nil:
		x.refuse(clients.RefusedSession)
		http.Error(x.w, err.Error(), http.StatusNotFound)
		return nil
	}
	return hs
}

// isOfSession reports whether a GET or DELETE names a session, and no version without sessions.
// Otherwise it answers the request; modern says what 2026-07-28 has instead.
func (x *exchange) isOfSession(modern string) bool {
	switch version := x.r.Header.Get(versionHeader); {
	case version == modernVersion:
		x.w.Header().Set("Allow", "POST")
		http.Error(x.w, "version "+modernVersion+" "+modern, http.StatusMethodNotAllowed)
	case version != "" && !slices.Contains(legacyVersions, version):
		http.Error(x.w, "the version "+message.Quote(version)+" in the header "+versionHeader+" is not known", http.StatusBadRequest)
	case x.r.Header.Get(sessionHeader) == "":
		http.Error(x.w, "the header "+sessionHeader+" is missing", http.StatusBadRequest)
	default:
		return true
	}
	return false
}

// deliver writes the notifications of a session to its stream, until one of the two ends.
func (x *exchange) deliver(hs *httpSession) {
	s := x.server
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	mine := s.takeStream(hs, signal)
	defer s.leaveStream(hs, mine)
	known, seen := x.startDelivery(hs)
	position := seen           // position of the last question on the stream
	var streamRequest *request // nil while no server can ask without a call: most streams carry no questions
	defer func() {
		if streamRequest != nil {
			hs.questions.closeStream(streamRequest)
		}
	}()
	if !hs.opts.sharesAll() { // before the client knows that it has a stream
		streamRequest = hs.newStreamRequest(wake, seen)
	}
	if !x.prime(hs, eventID(known, position)) {
		return
	}
	// A Ticker and its channel would add to the cost of each idle stream. So would the channel of hs.ctx:
	// instead, the end of the session wakes the stream.
	due := time.Now().Add(s.limits.KeepAlive)
	keepAlive := time.AfterFunc(s.limits.KeepAlive, signal)
	defer keepAlive.Stop()
	for {
		if streamRequest == nil && !hs.opts.sharesAll() {
			streamRequest = hs.newStreamRequest(wake, seen)
		}
		if m := hs.notify.NextOf(mine); m != nil {
			if !x.notification(m, &known, position) {
				return
			}
			continue
		}
		if streamRequest != nil {
			if m, _ := streamRequest.out.next(); m != nil {
				position = cmp.Or(hs.questions.written(m), position)
				if !x.wire.Event(m, eventID(known, position)) {
					return
				}
				continue
			}
		}
		if hs.ctx.Err() != nil || !s.hasStream(hs, mine) {
			return
		}
		select {
		case <-wake:
			if now := time.Now(); !now.Before(due) {
				if !x.wire.KeepAlive() {
					return
				}
				due = now.Add(s.limits.KeepAlive)
				keepAlive.Reset(s.limits.KeepAlive)
			}
		case <-x.r.Context().Done():
			return
		}
	}
}

// noRequest is the jsonrpc.Request of the requests that newStreamRequest makes. It is never changed.
var noRequest = new(jsonrpc.Request)

// newStreamRequest makes a request for the whole stream of the session, on which servers can ask while
// no call is in flight. wake wakes the stream. seen is as in questions.openStream.
func (hs *httpSession) newStreamRequest(wake chan struct{}, seen int64) *request {
	streamRequest := &request{Request: noRequest, ctx: hs.ctx, out: &outbox{wake: wake, limits: &hs.opts.limits, asks: true}}
	hs.questions.openStream(streamRequest, seen)
	return streamRequest
}

// startDelivery lets the session hear of changes from now on, and of those since the last event that the
// client has seen. It returns the digests of the lists that the client knows, and the position of the
// last question that it has seen.
func (x *exchange) startDelivery(hs *httpSession) (known [3]string, seen int64) {
	hs.follow()
	hs.notify.StartSession()
	known = x.gateway.catalog.Get().Digests()
	if told, position, ok := parseEventID(x.r.Header.Get(eventHeader)); ok {
		hs.notify.ReportLists(listing.ChangedDigests(told, known))
		known, seen = told, position
	}
	return known, seen
}

// prime begins the stream with an event without data. The client needs its id to resume the stream.
func (x *exchange) prime(hs *httpSession, id string) bool {
	if hs.version < "2025-11-25" { // their clients take an event without data for a message
		id = ""
	}
	return x.wire.Begin(id)
}

// notification writes a notification to the stream, and updates the digests that the client knows.
func (x *exchange) notification(m jsonrpc.Message, known *[3]string, position int64) bool {
	*known = toldOf(m, *known, x.gateway.catalog.Get().Digests())
	return x.wire.Event(m, eventID(*known, position))
}

// endWithToken ends a long request when the token of its client expires. The client continues with a new
// token.
func (x *exchange) endWithToken() (cancel context.CancelFunc) {
	if x.expiry.IsZero() {
		return func() {}
	}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.expiry)
	x.r = x.r.WithContext(ctx)
	return cancel
}

// takeStream makes a new stream the stream of its session, and wakes the one that it replaces. wake is
// called when there is something to read, and when another stream replaces this one.
func (s *Server) takeStream(hs *httpSession, wake func()) (mine uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hs.streams++
	hs.notify.ReadBy(hs.streams, wake)
	if hs.wakeStream != nil {
		hs.wakeStream()
	}
	hs.wakeStream = wake
	return hs.streams
}

// hasStream reports whether a stream is still the stream of its session.
func (s *Server) hasStream(hs *httpSession, mine uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hs.streams == mine
}

func (s *Server) leaveStream(hs *httpSession, mine uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.streams == mine {
		hs.wakeStream = nil
	}
}

// eventID returns the id of an event: the digests of the lists that the client knows, and the position
// of the last question; 0: there was none. A client that resumes with the id, even at another process,
// hears of the changes since, and of the questions that it has not seen.
func eventID(known [3]string, position int64) string {
	id := strings.Join(known[:], ".")
	if position == 0 {
		return id
	}
	return id + "." + strconv.FormatInt(position, 36)
}

func parseEventID(id string) (known [3]string, position int64, ok bool) {
	parts := strings.Split(id, ".")
	if len(id) > 200 || len(parts) < len(known) || len(parts) > len(known)+1 {
		return known, 0, false
	}
	if len(parts) > len(known) {
		// An invalid position counts as unknown; see questions.openStream.
		position, _ = strconv.ParseInt(parts[len(known)], 36, 64)
	}
	return [3]string(parts[:len(known)]), position, true
}

// toldOf returns the digests that the client knows after a notification: it reads the changed list
// again.
func toldOf(m jsonrpc.Message, known, now [3]string) [3]string {
	if r, ok := m.(*jsonrpc.Request); ok {
		for i, kind := range notices.ListChanged {
			if kind.Method == r.Method {
				known[i] = now[i]
			}
		}
	}
	return known
}
