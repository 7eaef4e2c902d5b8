// Package httpwire reads the body of a request of Streamable HTTP, and writes its answer, JSON or a stream of events, so
// that a slow peer costs bounded memory and time.
package httpwire

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// Limits bound what one request may cost. All of them are set.
type Limits struct {
	MaxBodyBytes int
	ReadTimeout  time.Duration // of the body
	WriteTimeout time.Duration // of each message.PieceBytes of the answer
}

// Exchange is one request of HTTP with its answer. Its methods that write report false if the peer does not read. Not
// safe for concurrent use.
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

// JSON writes an answer of one message.
func (x *Exchange) JSON(status int, m message.Encoded) bool {
	return x.writeWhole(status, m.Head, m.Body, m.Tail)
}

// writeWhole writes an answer as JSON to its last byte: what stays in the buffers of net/http would be
// written without a deadline when the handler has returned.
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

// Accept answers messages that have no answer.
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

// writePieces writes to the peer. Each piece has WriteTimeout, so that a large answer may take longer.
func (x *Exchange) writePieces(parts ...[]byte) bool {
	room := 0 // of the piece
	for _, part := range parts {
		for len(part) > 0 {
			if room == 0 {
				room = message.PieceBytes
				_ = x.control.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout))
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

// streamHeader is the header of a stream. net/http does not change the values.
var streamHeader = http.Header{
	"Content-Type":      {"text/event-stream"},
	"Cache-Control":     {"no-cache, no-transform"},
	"X-Accel-Buffering": {"no"}, // for nginx
}

// IsStream reports whether the answer is a stream, and has begun.
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

// Event writes a message to the stream, with an id if that is not empty.
func (x *Exchange) Event(m jsonrpc.Message, id string) bool {
	encoded := message.Encode(m)
	head := "event: message\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return x.write([]byte(head+"data: "), encoded.Head, message.OneLine(encoded.Body), encoded.Tail, []byte("\n\n"))
}

// KeepAlive writes a comment to the stream.
func (x *Exchange) KeepAlive() bool { return x.write([]byte(": \n\n")) }

// write writes to the stream, which it begins. What is written arrives at once.
func (x *Exchange) write(parts ...[]byte) bool {
	x.start()
	_ = x.control.SetWriteDeadline(time.Now().Add(x.limits.WriteTimeout)) // of the headers, if nothing follows
	defer x.control.SetWriteDeadline(time.Time{})                         //nolint:errcheck // the server sets its own, or the connection is broken
	return x.writePieces(parts...) && x.control.Flush() == nil
}

// Begin begins the stream with an event that has an id and no data. With an empty id it has no event.
func (x *Exchange) Begin(id string) bool {
	if id == "" {
		return x.write()
	}
	return x.write([]byte("id: " + id + "\ndata: \n\n"))
}
