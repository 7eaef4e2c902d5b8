// Package httpwire reads the body of a request of Streamable HTTP, and writes its answer: JSON, or a
// stream of events. Limits bound the memory and the time that a slow peer costs.
package httpwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Limits bound what one request may cost. All of them must be set.
type Limits struct {
	MaxBodyBytes int
	ReadTimeout  time.Duration // of the body
	WriteTimeout time.Duration // for each message.PieceBytes of the answer
}

// Exchange is one HTTP request with its answer. Its methods that write report false if the peer does not
// read. Not safe for concurrent use.
type Exchange struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	limits    Limits
	streaming bool // the answer is a stream, and has begun
}

// New returns an Exchange whose answer is written to w.
func New(w http.ResponseWriter, limits Limits) *Exchange {
	return &Exchange{w: w, control: http.NewResponseController(w), limits: limits}
}

// AcceptsStream reports whether a request accepts a stream as its answer.
func AcceptsStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "text/event-stream") || accept == "" || strings.Contains(accept, "*/*")
}

// JSON writes an answer that is one message.
func (x *Exchange) JSON(status int, m message.Encoded) bool {
	return x.writeWhole(status, m.Head, m.Body, m.Tail)
}

// writeWhole writes an answer as JSON to its last byte: after the handler has returned, net/http would
// write the rest without a deadline.
func (x *Exchange) writeWhole(status int, parts ...[]byte) bool {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(length))
	x.w.WriteHeader(status)
	return x.writePieces(parts...) && x.Flush()
}

// Accept answers a request of messages that need no answer.
func (x *Exchange) Accept() {
	x.w.Header().Set("Content-Length", "0")
	x.w.WriteHeader(http.StatusAccepted)
}

// Flush writes what net/http has buffered.
func (x *Exchange) Flush() bool {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout))
	defer x.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // the server sets its own, or the connection is broken
	return x.control.Flush() == nil
}

// writePieces writes to the peer. WriteTimeout applies to each piece, so a large answer may take longer.
func (x *Exchange) writePieces(parts ...[]byte) bool {
	left := 0 // bytes of the current piece
	for _, part := range parts {
		for len(part) > 0 {
			if left == 0 {
				left = message.PieceBytes
				_ = x.control.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout))
			}
			n, err := x.w.Write(part[:min(len(part), left)])
			if err != nil {
				return false
			}
			part, left = part[n:], left-n
		}
	}
	return true
}

// Batch writes the answers of a batch.
func (x *Exchange) Batch(answers []message.Encoded) bool {
	parts := make([][]byte, 0, 4*len(answers)+1)
	between := "["
	for _, a := range answers {
		parts = append(parts, []byte(between), a.Head, a.Body, a.Tail)
		between = ","
	}
	return x.writeWhole(http.StatusOK, append(parts, []byte("]"))...)
}

// streamHeader is the header of a stream. net/http does not change its values.
var streamHeader = http.Header{
	"Content-Type":      {"text/event-stream"},
	"Cache-Control":     {"no-cache, no-transform"},
	"X-Accel-Buffering": {"no"}, // for nginx
}

// IsStream reports whether the answer is a stream that has begun.
func (x *Exchange) IsStream() bool { return x.streaming }

// start writes the header of a stream, once.
func (x *Exchange) start() {
	if x.streaming {
		return
	}
	x.streaming = true
	maps.Copy(x.w.Header(), streamHeader)
	x.w.WriteHeader(http.StatusOK)
}

// Event writes a message to the stream, with an id unless it is empty.
func (x *Exchange) Event(m jsonrpc.Message, id string) bool {
	encoded := message.Encode(m)
	head := "event: message\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return x.write([]byte(head+"data: "), encoded.Head, jsonscan.OneLine(encoded.Body), encoded.Tail, []byte("\n\n"))
}

// KeepAlive writes a comment to the stream.
func (x *Exchange) KeepAlive() bool { return x.write([]byte(": \n\n")) }

// write writes to the stream at once, and begins it if needed.
func (x *Exchange) write(parts ...[]byte) bool {
	x.start()
	_ = x.control.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout)) // of the headers, if nothing follows
	defer x.control.SetWriteDeadline(time.Time{})                         //nolint:errcheck // the server sets its own, or the connection is broken
	return x.writePieces(parts...) && x.control.Flush() == nil
}

// Begin begins the stream with an event that has an id and no data. If the id is empty, it only writes
// the header.
func (x *Exchange) Begin(id string) bool {
	if id == "" {
		return x.write()
	}
	return x.write([]byte("id: " + id + "\ndata: \n\n"))
}

// bodyStep bounds the first buffer for a body.
const bodyStep = 64 << 10

// ErrNoRoom is the error of a body whose bytes could not be reserved.
var ErrNoRoom = errors.New("the requests in flight, and what the gateway keeps for this principal, hold too many bytes; read what waits, end subscriptions or sessions")

// BodyError is the error of a body that was not read. Its status and text are the answer.
type BodyError struct {
	Status int
	Text   string
}

// Error implements error.
func (e *BodyError) Error() string { return e.Text }

// ReadBody reads the body of a request in bounded memory and time. It calls reserve with the bytes of
// each buffer before it makes the buffer. The caller gives back the reserved bytes, also after an error.
// The error is ErrNoRoom or a *BodyError. If a body was not read to its end, the connection is closed
// after the answer.
func (x *Exchange) ReadBody(r *http.Request, reserve func(bytes int) bool) (body []byte, reserved int, err error) {
	_ = x.control.SetReadDeadline(time.Now().Add(x.limits.ReadTimeout))
	most := int64(x.limits.MaxBodyBytes)
	from := http.MaxBytesReader(x.w, r.Body, most) // closes the connection beyond most
	if r.ContentLength > most {
		x.w.Header().Set("Connection", "close")
		return nil, 0, &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has %d bytes, and %d is the most", r.ContentLength, most)}
	}
	body = make([]byte, 0, min(max(r.ContentLength, 0), bodyStep)+bytes.MinRead)
	for {
		if len(body) == cap(body) || reserved == 0 { // the buffer doubles
			step := max(cap(body), bytes.MinRead)
			if !reserve(step) {
				x.w.Header().Set("Connection", "close")
				return nil, reserved, ErrNoRoom
			}
			if reserved += step; len(body) == cap(body) {
				body = slices.Grow(body, step)
			}
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch tooLarge := new(http.MaxBytesError); {
		case err == io.EOF:
			_ = x.control.SetReadDeadline(time.Time{})
			return body, reserved, nil
		case errors.As(err, &tooLarge):
			return nil, reserved, &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most)}
		case err != nil:
			x.w.Header().Set("Connection", "close")
			return nil, reserved, &BodyError{http.StatusRequestTimeout, "the body did not arrive in time"}
		}
	}
}
