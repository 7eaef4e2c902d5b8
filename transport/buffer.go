package transport

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// Large messages of a server share Limits.Buffer while they are read, and while
// their results are decoded. Messages below largeLine do not count.

const (
	// bufferTimeout is how long a stream that carries every message of a server
	// waits for room for one of them. Then that message is skipped: callers that do
	// not take their answers must not hold up all others.
	bufferTimeout = 3 * time.Second
	// bufferSignInterval is how often a stream that waits notes that the server is alive.
	bufferSignInterval = 200 * time.Millisecond
)

// ErrNoRoom is why an answer was skipped that found no room in Limits.MaxBufferBytes.
var ErrNoRoom = errors.New("the answer was skipped: other large answers of the server are being read or decoded")

// NoRoomError is the error of a call whose answer was skipped because of that.
func NoRoomError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeAnswered,
		Cause: ErrNoRoom, Hint: "make fewer calls with large answers at a time, or raise Limits.MaxBufferBytes"}
}

// reserve makes room for more of the line that is being read. It reports false if
// there is none in time, or if the session has died.
func (w *wire) reserve(bytes int) bool {
	if w.share == nil {
		s := w.buffer.Share()
		w.share = &s
	}
	return GrowShare(w.share, w.Dead(), bytes, w.heard.Note)
}

// GrowShare is Grow for a stream that carries every message of a server. sign
// is called while it waits.
func GrowShare(s *budget.Share, dead <-chan struct{}, bytes int, sign func()) bool {
	for began := time.Now(); ; sign() {
		ctx, cancel := context.WithTimeout(context.Background(), bufferSignInterval)
		err := s.Grow(ctx, dead, bytes)
		ended := ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return true
		case ended, time.Since(began) > bufferTimeout:
			return false
		}
	}
}

// freeLine releases what the last line has reserved, unless its answer took it.
func (w *wire) freeLine() {
	if w.share != nil {
		w.share.Release()
	}
}

// takeShare is what the current line has reserved; nil if that is nothing.
func (w *wire) takeShare() *budget.Share {
	s := w.share
	w.share = nil
	w.in.reserved = 0
	return s
}

// reserve makes room for more of the reply, as long as the exchange lasts.
func (b *exchange) reserve(bytes int) bool { return b.share.Grow(b.ctx, nil, bytes) == nil }

// keep passes on what the reply of an exchange holds, as for [answer].
func (b *exchange) keep(r Request, err error) {
	if r.Held != nil && err == nil {
		r.Held.TakeOver(&b.share)
		return
	}
	b.share.Release()
}

// noRoomReply is the fault of a call whose answer was skipped.
func noRoomReply() *httpError {
	e := NoRoomError()
	f := invalidReply(e.Outcome, "%v", e.Cause)
	f.kind, f.hint = e.Kind, e.Hint
	return f
}

// reserveForEvents makes room for the events of a stream that carries more than one
// call. s is the stream's own share.
func (s *httpSession) reserveForEvents(events *sseReader, share *budget.Share) {
	events.reserve = func(bytes int) bool { return GrowShare(share, s.Dead(), bytes, s.endpoint.noteReceived) }
	events.releaseShare = share.Release
}

// skipped fails the request whose answer was skipped for want of room.
func (w *wire) skipped(id int64) {
	if id < FirstID {
		w.control.fail(id, ErrNoRoom.Error())
		return
	}
	if p := w.take(id); p != nil {
		p.answer <- answer{err: NoRoomError()}
	}
}

// keep passes on what an answer holds: to the caller, if it decodes the result,
// or back.
func (a *answer) keep(r Request) {
	switch {
	case a.share == nil:
	case r.Held != nil && a.err == nil:
		r.Held.TakeOver(a.share)
	default:
		a.share.Release()
	}
}
