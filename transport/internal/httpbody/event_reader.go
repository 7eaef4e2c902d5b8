package httpbody

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"sync"
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
	r       *bufio.Reader // over source, from readBuffers; nil after Close
	source  streamSource
	limit   int
	started bool // the first line was read; only the first line may begin with a byte order mark
	skipLF  bool // the last line ended in CR; a LF directly after it belongs to that line end

	// Reserver, if set, reserves memory for a large event. It is released when the
	// next event is read, or when the stream ends.
	Reserver Reserver
	reserved int  // bytes, by Reserver
	noRoom   bool // memory for the current event could not be reserved
}

// readBuffers holds the read buffers of closed readers. Most streams carry one answer, which
// is much shorter than a buffer.
var readBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, jsonrpc.ReadBufferSize) }}

// NewEventReader makes a reader for events of at most limit bytes of data. Call Close when
// it is no longer needed.
func NewEventReader(r io.Reader, limit int) *EventReader {
	e := &EventReader{r: readBuffers.Get().(*bufio.Reader), source: streamSource{r: r}, limit: limit}
	e.r.Reset(&e.source)
	return e
}

// Close releases the read buffer. It does not close the stream. Events stay valid.
func (r *EventReader) Close() {
	r.r.Reset(nil)
	readBuffers.Put(r.r)
	r.r = nil
}

// Ended reports whether the end of the stream has arrived, although the reader may not have
// returned all events before it.
func (r *EventReader) Ended() bool { return r.source.ended }

// streamSource is the stream below the read buffer.
type streamSource struct {
	r     io.Reader
	ended bool // r has returned io.EOF
}

// Read implements io.Reader.
func (s *streamSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.ended = err == io.EOF
	return n, err
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
		line, err := r.readLine(r.limit-len(e.Data)+len("data: "), cap(e.Data))
		if !r.started {
			r.started = true
			line.text = bytes.TrimPrefix(line.text, byteOrderMark)
		}
		e.Skipped = r.noRoom
		if len(line.text) > 0 {
			name, value, _ := bytes.Cut(line.text, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				r.addData(&e, value, &line, first)
				first, started = false, true
			case "id":
				if bytes.IndexFunc(value, isForbiddenInHeader) < 0 && len(value) <= maxEventID && !line.oversize {
					e.ID, e.HasID = string(value), true
					started = true
				}
			case "event":
				switch {
				case line.oversize:
				case string(value) == "message":
					e.Name = "message" // the usual name, without an allocation
				default:
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
		case len(line.text) == 0 && started:
			return e, nil
		case len(line.text) == 0:
			e.Name = ""
		}
	}
}

// release returns the memory that was reserved for the last event.
func (r *EventReader) release() {
	if r.reserved > 0 {
		r.Reserver.Release()
		r.reserved = 0
	}
}

// addData adds value, the value of one data line, to an event. first says that it is the
// first data line of the event.
func (r *EventReader) addData(e *Event, value []byte, line *line, first bool) {
	tail := line.tail
	joined := len(e.Data) + len(value) // without the line break between them
	if size := joined + 1; !first && !e.Oversize && !line.oversize && joined <= r.limit && size > cap(e.Data) {
		size = max(size, min(2*cap(e.Data), r.limit))
		if r.reserveUpTo(size + cap(line.text)) {
			e.Data = resized(e.Data, size)
		} else {
			line.oversize, e.Skipped = true, true
			value, tail = jsonrpc.ClipEnds(nil, value)
		}
	}
	switch {
	case e.Oversize:
		if line.oversize {
			e.Tail = tail
		} else if len(value) > 0 {
			_, e.Tail = jsonrpc.ClipEnds(e.Tail, value)
		}
	case line.oversize || joined > r.limit:
		e.Oversize = true
		if !line.oversize {
			value, tail = jsonrpc.ClipEnds(nil, value)
		}
		if first {
			e.Data = value
		} else {
			e.Data, _ = jsonrpc.ClipEnds(e.Data, value)
		}
		e.Tail = tail
	case first && line.buffered:
		e.Data = bytes.Clone(value)
	case first:
		e.Data = value // the line is not used again, and usually the only one
	default:
		e.Data = append(append(e.Data, '\n'), value...)
	}
}

// line is one line of a stream, without its end.
type line struct {
	text []byte
	// buffered: text is a part of the read buffer, so it is valid until the next read.
	buffered bool
	// oversize: the line is longer than its limit, text is its beginning and tail its end.
	oversize bool
	tail     []byte
}

// readLine returns the next line. It ends with LF, CR LF or CR, or with the stream. held is
// how much memory the event occupies without it.
func (r *EventReader) readLine(limit, held int) (l line, err error) {
	for {
		if _, err := r.r.Peek(1); err != nil {
			return l, err
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
		case l.oversize:
			_, l.tail = jsonrpc.ClipEnds(l.tail, piece)
		case len(l.text)+len(piece) <= limit && end >= 0 && len(l.text) == 0:
			l.text, l.buffered = piece, true
		case len(l.text)+len(piece) > limit, !r.makeRoom(&l.text, len(piece), limit, held):
			l.oversize = true
			l.text, l.tail = jsonrpc.ClipEnds(l.text, piece)
		default:
			l.text = append(l.text, piece...)
		}
		if end < 0 {
			_, _ = r.r.Discard(len(chunk))
			continue
		}
		r.skipLF = chunk[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		return l, nil
	}
}

// makeRoom makes room for more bytes of a line. The room doubles, up to limit. held is as for
// readLine. It reports false if memory could not be reserved.
func (r *EventReader) makeRoom(text *[]byte, more, limit, held int) bool {
	need := len(*text) + more
	if need <= cap(*text) {
		return true
	}
	size := min(max(2*cap(*text), need), limit)
	if !r.reserveUpTo(held + size) {
		return false
	}
	*text = resized(*text, size)
	return true
}

// reserveUpTo reserves memory for an event that occupies this many bytes in total.
func (r *EventReader) reserveUpTo(bytes int) bool {
	if !reserveUpTo(r.Reserver, &r.reserved, bytes) {
		r.noRoom = true
		return false
	}
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
