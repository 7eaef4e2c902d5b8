package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const (
	// A stream is written to maxBurst times at once, and then once for each flushInterval.
	// So a crash and the restart after it are shown when they happen, and many events share
	// a write.
	maxBurst      = 16
	flushInterval = 100 * time.Millisecond
	// heartbeatInterval is how often a comment is written while nothing happens, so that
	// proxies keep the connection and a reader notices that it is gone.
	heartbeatInterval = 15 * time.Second
	// writeTimeout bounds one write. A reader that does not read ends its stream, and
	// connects again with Last-Event-ID.
	writeTimeout = 10 * time.Second
	// maxBatch is how many events one write holds at most, and maxBatchBytes how many bytes,
	// beyond which it holds one more event.
	maxBatch      = 500
	maxBatchBytes = 256 << 10
	// streamPath is the path of event streams.
	streamPath = "/api/events/stream"
)

// streamEvents serves GET api/events/stream: the kept events after Last-Event-ID or
// ?after=SEQ, or the last ?last=N, and then events as they happen, without gap and without
// repetition (HTML Living Standard, section 9.2, server-sent events). ?kind=KIND, which may
// be repeated, selects kinds.
func (h *Handler) streamEvents(w http.ResponseWriter, r *http.Request) {
	after, ok := h.firstEvent(w, r)
	if !ok {
		return
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		if after, ok = h.seqOf(id); !ok {
			writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: "Last-Event-ID is not the id of an event"})
			return
		}
	}
	if r.Method == http.MethodHead { // it gets the headers, and holds no place
		setStreamHeaders(w.Header())
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		writeBusy(w, fmt.Sprintf("%d event streams are open, which is the limit; close a page", maxStreams))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if seen := h.client.Stats().Events; after > seen {
		after = 0 // a number of an earlier process; "hello" tells the reader
	}
	s := stream{w: w, control: http.NewResponseController(w), handler: h}
	setStreamHeaders(w.Header())
	s.add("hello", "", api.Hello{Schema: api.Schema, Instance: h.instance})
	s.buffer = append(s.buffer, "retry: 1000\n\n"...)
	if s.flush() != nil {
		return
	}
	s.run(ctx, h.closed, relay.Of(h.client).WatchFrom(ctx, after, kindsOf(r)...))
}

func setStreamHeaders(header http.Header) {
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would keep events back
}

// seqOf returns the number of the event with an id: "INSTANCE-SEQ". It is 0 for an id of
// another instance, such as that of an earlier process, whose numbers say nothing here.
func (h *Handler) seqOf(id string) (seq uint64, ok bool) {
	instance, digits, found := strings.Cut(id, "-")
	if !found {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	if instance != h.instance {
		seq = 0
	}
	return seq, err == nil
}

// stream is one reader of events. One goroutine uses it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	handler *Handler
	buffer  []byte
	batch   int // events in buffer
}

// run writes events until the reader leaves, the handler is closed, or the client is.
func (s *stream) run(ctx context.Context, closed <-chan struct{}, events <-chan mcpvisor.Event) {
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	credit := maxBurst // writes that may be made now
	refill := time.NewTimer(flushInterval)
	defer refill.Stop()
	for {
		readable := events
		if s.full() {
			readable = nil // the queue of the watcher keeps them, and says what it drops
		}
		select {
		case e, ok := <-readable:
			if !ok || !s.gather(e, events) {
				_ = s.flush() // the stream ends in any case
				return
			}
		case <-refill.C:
			if credit = min(credit+1, maxBurst); credit < maxBurst {
				refill.Reset(flushInterval)
			}
		case <-heartbeat.C:
			s.buffer = append(s.buffer, ":\n\n"...)
		case <-ctx.Done():
			return
		case <-closed:
			return
		}
		if credit == 0 || len(s.buffer) == 0 {
			continue
		}
		if s.flush() != nil {
			return
		}
		if credit--; credit == maxBurst-1 {
			refill.Reset(flushInterval)
		}
	}
}

// gather appends an event, and those that are there already. It reports whether more can
// follow.
func (s *stream) gather(e mcpvisor.Event, events <-chan mcpvisor.Event) (open bool) {
	s.addEvent(&e)
	for !s.full() {
		select {
		case e, open = <-events:
			if !open {
				return false
			}
			s.addEvent(&e)
		default:
			return true
		}
	}
	return true
}

// full reports whether the buffer must be written before another event is added.
func (s *stream) full() bool { return s.batch >= maxBatch || len(s.buffer) >= maxBatchBytes }

func (s *stream) addEvent(e *mcpvisor.Event) {
	s.batch++
	if e.Kind == mcpvisor.EventMissed {
		s.add("missed", "", api.Missed{Missed: e.Missed})
		return
	}
	s.add("", s.handler.instance+"-"+strconv.FormatUint(e.Seq, 10), s.handler.eventOf(e))
}

// add appends one event to the buffer. JSON has no line breaks, so that data is one line.
func (s *stream) add(name, id string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // these types always marshal
	}
	if name != "" {
		s.buffer = append(append(append(s.buffer, "event: "...), name...), '\n')
	}
	if id != "" {
		s.buffer = append(append(append(s.buffer, "id: "...), id...), '\n')
	}
	s.buffer = append(append(append(s.buffer, "data: "...), text...), "\n\n"...)
}

// flush writes the buffer. No deadline stays set while nothing is written: over HTTP/2 it
// would end the stream.
func (s *stream) flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(s.buffer); err != nil {
		return err
	}
	if s.buffer, s.batch = s.buffer[:0], 0; cap(s.buffer) > maxBatchBytes {
		s.buffer = nil
	}
	if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if err := s.control.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
