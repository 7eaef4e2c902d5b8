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
	// ID is the id of the event. HasID distinguishes an empty id, which resets the last
	// id of the stream, from an event without an id.
	ID    string
	HasID bool
	// Name is empty, or "message", for an event that carries a message of MCP.
	Name string
	// Retry is the delay before a reconnect for which the server asks; 0 if none.
	Retry time.Duration
	// Data is the payload; the caller owns it. If the event is larger than the limit,
	// Oversize is true, Data is the beginning of the first line that was too long, and
	// Tail is the end of that line.
	Data     []byte
	Tail     []byte
	Oversize bool
	// Skipped: the event is Oversize because memory for it could not be reserved.
	Skipped bool
}

// EventReader splits a stream into events. It follows the HTML standard
// ("Interpreting an event stream") with two exceptions:
//
//   - An event without data is returned if it carries an id or a delay, because MCP
//     servers begin a stream with such an event.
//   - An event that the end of the stream cuts short is returned, because some servers
//     omit the last blank line. Decoding the data shows whether it is complete.
//
// One goroutine owns an EventReader, with all its fields.
type EventReader struct {
	r       *bufio.Reader
	limit   int
	started bool // the first line was read; only the first line may begin with a byte order mark
	skipLF  bool // the last line ended in CR; a LF directly after it belongs to that line end

	// Reserve, if set, reserves memory for a large event. Release returns it when the
	// next event is read, or when the stream ends.
	Reserve  func(bytes int) bool
	Release  func()
	reserved int  // bytes, by Reserve
	noRoom   bool // memory for the current event could not be reserved
}

// NewEventReader makes a reader for events of at most limit bytes of data.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, jsonrpc.ReadBufferSize), limit: limit}
}

// Next returns the next event. It keeps at most limit bytes of data in memory, plus the
// name of a field. The rest of a larger event is skipped.
func (r *EventReader) Next() (Event, error) {
	var e Event
	r.noRoom = false
	r.release()
	started := false // a data, id or retry field was read
	first := true    // no data line was read
	for {
		line, tail, oversize, err := r.readLine(r.limit - len(e.Data) + len("data: "))
		if !r.started {
			r.started = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		e.Skipped = r.noRoom
		if len(line) > 0 {
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				e.addData(value, tail, oversize, first, r.limit)
				first, started = false, true
			case "id":
				if bytes.IndexFunc(value, isForbiddenInHeader) < 0 && len(value) <= maxEventID && !oversize {
					e.ID, e.HasID = string(value), true
					started = true
				}
			case "event":
				if !oversize {
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
			r.release() // the event was cut short and is not returned
			return Event{}, err
		case len(line) == 0 && started:
			return e, nil
		case len(line) == 0:
			e.Name = ""
		}
	}
}

// release returns the memory that was reserved for the last event.
func (r *EventReader) release() {
	if r.reserved > 0 {
		r.Release()
		r.reserved = 0
	}
}

// addData adds the value of one data line. first says that it is the first data line of
// the event. tail is the end of a line that readLine found oversize.
func (e *Event) addData(value, tail []byte, oversize, first bool, limit int) {
	switch {
	case e.Oversize:
		if oversize {
			e.Tail = tail
		} else if len(value) > 0 {
			_, e.Tail = jsonrpc.ClipEnds(e.Tail, value)
		}
	case oversize || len(e.Data)+len(value)+1 > limit+1:
		e.Oversize = true
		if !oversize {
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

// readLine returns the next line without its end, which is LF, CR LF or CR. If the line
// is longer than limit, oversize is true, line is its beginning and tail its end.
func (r *EventReader) readLine(limit int) (line, tail []byte, oversize bool, err error) {
	for {
		if _, err := r.r.Peek(1); err != nil {
			return line, tail, oversize, err
		}
		chunk, _ := r.r.Peek(r.r.Buffered())
		if r.skipLF {
			r.skipLF = false
			if chunk[0] == '\n' {
				_, _ = r.r.Discard(1)
				continue
			}
		}
		end := lineEnd(chunk)
		piece := chunk
		if end >= 0 {
			piece = chunk[:end]
		}
		switch {
		case oversize:
			_, tail = jsonrpc.ClipEnds(tail, piece)
		case len(line)+len(piece) > limit, !r.reserveUpTo(r.limit - limit + len(line) + len(piece)):
			oversize = true
			line, tail = jsonrpc.ClipEnds(line, piece)
		default:
			line = append(line, piece...)
		}
		if end < 0 {
			_, _ = r.r.Discard(len(chunk))
			continue
		}
		r.skipLF = chunk[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		return line, tail, oversize, nil
	}
}

// reserveUpTo reserves memory for an event of this many bytes in total, and a quarter
// more. The event arrives in pieces, and would otherwise need a reservation for each.
func (r *EventReader) reserveUpTo(bytes int) bool {
	if r.Reserve == nil || bytes < jsonrpc.LargeMessage || bytes <= r.reserved {
		return true
	}
	more := bytes + bytes/4 - r.reserved
	if !r.Reserve(more) {
		r.noRoom = true
		return false
	}
	r.reserved += more
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
