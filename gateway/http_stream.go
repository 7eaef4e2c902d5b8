package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
)

// writeJSON writes an answer of one message. It reports false if the peer does not read.
func (x *exchange) writeJSON(status int, m encodedMessage) bool {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(m.len()))
	defer x.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // the server sets its own, or the connection is broken
	x.w.WriteHeader(status)
	return x.writePieces(m.head, m.body, m.tail)
}

// writePieces writes to the peer. Each piece has WriteTimeout, so that a large answer may take longer. It reports
// false if the peer does not read.
func (x *exchange) writePieces(parts ...[]byte) bool {
	room := 0 // of the piece
	for _, part := range parts {
		for len(part) > 0 {
			if room == 0 {
				room = pieceBytes
				_ = x.control.SetWriteDeadline(time.Now().Add(x.server.limits.WriteTimeout))
			}
			n, err := x.w.Write(part[:min(len(part), room)])
			if err != nil {
				return false
			}
			part, room = part[n:], room-n
		}
	}
	return true
}

// writeBatch writes the answers of a batch.
func (x *exchange) writeBatch(answers []encodedMessage) {
	m := encodedMessage{tail: []byte("]")}
	for i, a := range answers {
		m.body = append(append(append(append(m.body, ",["[btoi(i == 0)]), a.head...), a.body...), a.tail...)
	}
	x.writeJSON(http.StatusOK, m)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// streamHeader is the header of a stream. net/http does not change the values.
var streamHeader = http.Header{
	"Content-Type":      {"text/event-stream"},
	"Cache-Control":     {"no-cache, no-transform"},
	"X-Accel-Buffering": {"no"}, // for nginx
}

// begin begins a stream.
func (x *exchange) begin() {
	if x.streaming {
		return
	}
	x.streaming = true
	maps.Copy(x.w.Header(), streamHeader)
	x.w.WriteHeader(http.StatusOK)
}

// event writes a message to the stream. It reports false if the peer does not read.
func (x *exchange) event(m jsonrpc.Message, id string) bool {
	encoded := encodeMessage(m)
	head := "event: message\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return x.write([]byte(head+"data: "), encoded.head, oneLine(encoded.body), encoded.tail, []byte("\n\n"))
}

// keepAlive writes a comment to the stream.
func (x *exchange) keepAlive() bool { return x.write([]byte(": \n\n")) }

// write writes to the stream, which it begins. What is written arrives at once.
func (x *exchange) write(parts ...[]byte) bool {
	x.begin()
	_ = x.control.SetWriteDeadline(time.Now().Add(x.server.limits.WriteTimeout)) // of the headers, if nothing follows
	defer x.control.SetWriteDeadline(time.Time{})                                //nolint:errcheck // the server sets its own, or the connection is broken
	return x.writePieces(parts...) && x.control.Flush() == nil
}

// stream answers GET: the notifications of a session before 2026-07-28. A second stream of a
// session takes the place of the first, which may be the rest of a broken connection.
func (x *exchange) stream() {
	s := x.server
	if x.r.Header.Get(versionHeader) >= modernVersion {
		x.w.Header().Set("Allow", "POST")
		http.Error(x.w, "version "+modernVersion+" has no stream of its own; use subscriptions/listen", http.StatusMethodNotAllowed)
		return
	}
	if !acceptsStream(x.r) {
		http.Error(x.w, "Accept must have text/event-stream", http.StatusNotAcceptable)
		return
	}
	id := x.r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(x.w, "the header "+sessionHeader+" is missing", http.StatusBadRequest)
		return
	}
	hs, err := x.openSession(id)
	switch {
	case errors.Is(err, errManySessions):
		x.busy(err.Error())
		return
	case err != nil:
		x.refuse(clients.RefusedSession)
		http.Error(x.w, err.Error(), http.StatusNotFound)
		return
	}
	defer s.closeSession(hs)
	defer x.endWithToken()()
	hs.peer.Stream(1)
	defer hs.peer.Stream(-1)

	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	mine := s.takeStream(hs, signal)
	defer s.leaveStream(hs, mine)
	hs.notify.wakeWith(signal)
	hs.follow()
	hs.notify.startSession()
	asked := &request{Request: new(jsonrpc.Request), ctx: hs.ctx, out: newOutbox(&hs.opts.limits, nil)}
	asked.out.wake, asked.out.asks = wake, true
	hs.questions.stand(asked)
	defer hs.questions.fall(asked)
	known := x.gateway.catalog.get().digests()
	if told, ok := parseEventID(x.r.Header.Get(eventHeader)); ok {
		hs.notify.reportLists(changedDigests(told, known))
		known = told
	}
	var prime []byte
	if hs.version >= "2025-11-25" { // older ones take an event without data for a message
		prime = []byte("id: " + eventID(known) + "\ndata: \n\n")
	}
	if !x.write(prime) {
		return
	}
	// A Ticker, with its channel, would be a part of what each idle stream costs.
	due := time.Now().Add(s.limits.KeepAlive)
	keepAlive := time.AfterFunc(s.limits.KeepAlive, signal)
	defer keepAlive.Stop()
	for {
		if m := hs.notify.next(); m != nil {
			known = toldOf(m, known, x.gateway.catalog.get().digests())
			if !x.event(m, eventID(known)) {
				return
			}
			continue
		}
		if m, _ := asked.out.next(); m != nil {
			if !x.event(m, eventID(known)) {
				return
			}
			continue
		}
		select {
		case <-wake:
			if !s.hasStream(hs, mine) {
				return
			}
			if now := time.Now(); !now.Before(due) {
				if !x.keepAlive() {
					return
				}
				due = now.Add(s.limits.KeepAlive)
				keepAlive.Reset(s.limits.KeepAlive)
			}
		case <-x.r.Context().Done():
			return
		case <-hs.ctx.Done():
			return
		}
	}
}

// endWithToken ends a request that lasts when the token of its client expires. The client continues with
// a new one.
func (x *exchange) endWithToken() (cancel context.CancelFunc) {
	if x.expiry.IsZero() {
		return func() {}
	}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.expiry)
	x.r = x.r.WithContext(ctx)
	return cancel
}

// takeStream makes a stream the one of its session, and wakes the one that was it before.
// wake is called when another stream takes its place.
func (s *Server) takeStream(hs *httpSession, wake func()) (mine uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hs.wakeStream != nil {
		hs.wakeStream()
	}
	hs.streams++
	hs.wakeStream = wake
	return hs.streams
}

// hasStream reports whether a stream is still the one of its session.
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

// eventID is the id of an event: which lists the session was told of. A client that comes back
// with it, even to another process, is told what has changed since.
func eventID(known [3]string) string { return strings.Join(known[:], ".") }

func parseEventID(id string) (known [3]string, ok bool) {
	parts := strings.Split(id, ".")
	if len(parts) != len(known) || len(id) > 200 {
		return known, false
	}
	return [3]string(parts), true
}

// toldOf is what the session knows after a notification: it lists anew what has changed.
func toldOf(m jsonrpc.Message, known, now [3]string) [3]string {
	if r, ok := m.(*jsonrpc.Request); ok {
		for i, kind := range listChanged {
			if kind.method == r.Method {
				known[i] = now[i]
			}
		}
	}
	return known
}
