package httpbody

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// maxEventID bounds the event ids that are kept, in bytes. The last one goes back to
// the server in a header.
const maxEventID = 1 << 10

// Event is one server-sent event.
type Event struct {
	// ID is the id of the event. HasID tells an empty id, which resets the last id of
	// the stream, from no id.
	ID    string
	HasID bool
	// Name is empty, or "message", for an event that carries a message of MCP.
	Name string
	// Retry is the delay before a reconnect for which the server asks; 0 if none.
	Retry time.Duration
	// Data is the payload, and belongs to the caller. Of an event beyond the limit,
	// Data is the beginning of the first line that was too long, and Tail its end.
	// Oversize is then true.
	Data     []byte
	Tail     []byte
	Oversize bool
	// Skipped: Oversize, because the memory for the event could not be reserved.
	Skipped bool
}

// EventReader splits a stream into events. It follows the HTML standard
// ("Interpreting an event stream") with two exceptions. It returns an event without
// data if that carries an id or a delay, because MCP primes streams in this way. And
// it returns an event that the end of the stream cuts short, because some servers
// omit the last blank line; decoding the data shows whether it is complete.
//
// An EventReader belongs to one goroutine.
type EventReader struct {
	r       *bufio.Reader
	limit   int
	started bool // the first line was read; only that may begin with a byte order mark
	skipLF  bool // the last line ended in CR, so that a LF which follows belongs to it

	// Reserve, if set, reserves memory for a large event. Release returns it when the
	// next event is read, or when the stream ends.
	Reserve  func(bytes int) bool
	Release  func()
	reserved int
	crowded  bool
}

// NewEventReader makes a reader for events of at most limit bytes of data.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, jsonrpc.ReadBufferSize), limit: limit}
}

// Next returns the next event. It keeps at most limit bytes of data in memory, and
// the name of a field; the rest of a larger event is skipped.
func (s *EventReader) Next() (Event, error) {
	var e Event
	s.crowded = false
	s.release()
	started := false // a data, id or retry field was read
	first := true    // no data line was read
	for {
		line, tail, over, err := s.line(s.limit - len(e.Data) + len("data: "))
		if !s.started {
			s.started = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		e.Skipped = s.crowded
		if len(line) > 0 {
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				e.addData(value, tail, over, first, s.limit)
				first, started = false, true
			case "id":
				if bytes.IndexFunc(value, isForbiddenInHeader) < 0 && len(value) <= maxEventID && !over {
					e.ID, e.HasID = string(value), true
					started = true
				}
			case "event":
				if !over {
					e.Name = string(value)
				}
			case "retry":
				if d, ok := retryDelay(value); ok {
					e.Retry = d
					started = true
				}
			}
		}
		switch {
		case err != nil && errors.Is(err, io.EOF) && started:
			return e, nil
		case err != nil:
			s.release() // the memory of the event that is cut short
			return Event{}, err
		case len(line) == 0 && started:
			return e, nil
		case len(line) == 0:
			e.Name = ""
		}
	}
}

// release returns the memory that was reserved for the last event.
func (s *EventReader) release() {
	if s.reserved > 0 {
		s.Release()
		s.reserved = 0
	}
}

func (e *Event) addData(value, tail []byte, over, first bool, limit int) {
	switch {
	case e.Oversize:
		if over {
			e.Tail = tail
		} else if len(value) > 0 {
			_, e.Tail = jsonrpc.ClipEnds(e.Tail, value)
		}
	case over || len(e.Data)+len(value)+1 > limit+1:
		e.Oversize = true
		if !over {
			value, tail = jsonrpc.ClipEnds(nil, value)
		}
		if first {
			e.Data = value
		} else {
			e.Data, _ = jsonrpc.ClipEnds(e.Data, value)
		}
		e.Tail = tail
	case first:
		e.Data = value // the line is not used again, and usually the only one
	default:
		e.Data = append(append(e.Data, '\n'), value...)
	}
}

// line returns the next line without its end, which is LF, CR LF or CR. Of a line
// beyond the limit it returns the beginning and the end.
func (s *EventReader) line(limit int) (line, tail []byte, over bool, err error) {
	for {
		if _, err := s.r.Peek(1); err != nil {
			return line, tail, over, err
		}
		chunk, _ := s.r.Peek(s.r.Buffered())
		if s.skipLF {
			s.skipLF = false
			if chunk[0] == '\n' {
				_, _ = s.r.Discard(1)
				continue
			}
		}
		end := lineEnd(chunk)
		piece := chunk
		if end >= 0 {
			piece = chunk[:end]
		}
		switch {
		case over:
			_, tail = jsonrpc.ClipEnds(tail, piece)
		case len(line)+len(piece) > limit, !s.hold(s.limit - limit + len(line) + len(piece)):
			over = true
			line, tail = jsonrpc.ClipEnds(line, piece)
		default:
			line = append(line, piece...)
		}
		if end < 0 {
			_, _ = s.r.Discard(len(chunk))
			continue
		}
		s.skipLF = chunk[end] == '\r'
		_, _ = s.r.Discard(end + 1)
		return line, tail, over, nil
	}
}

// hold reserves memory for an event of this many bytes in all, and a quarter more:
// the event arrives in pieces.
func (s *EventReader) hold(bytes int) bool {
	if s.Reserve == nil || bytes < jsonrpc.LargeMessage || bytes <= s.reserved {
		return true
	}
	more := bytes + bytes/4 - s.reserved
	if !s.Reserve(more) {
		s.crowded = true
		return false
	}
	s.reserved += more
	return true
}

// lineEnd is the index of the first CR or LF, or -1.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// retryDelay reads the value of a retry field: milliseconds, digits only.
func retryDelay(value []byte) (time.Duration, bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	ms, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// isForbiddenInHeader reports whether a header value cannot contain r (RFC 9110,
// section 5.5). The id of an event goes back to the server in a header.
func isForbiddenInHeader(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
