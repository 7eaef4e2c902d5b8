package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// say answers with a message of JSON-RPC.
func (v *visit) say(message string) { v.reply(http.StatusOK, "application/json", message) }

// reply answers with a status and a body. An empty content type is left out.
func (v *visit) reply(status int, contentType, body string) {
	header := v.w.Header()
	header["Content-Type"] = nil // net/http would guess
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	v.w.WriteHeader(status)
	_, _ = io.WriteString(v.w, body) // the client may have left
}

// sayError answers with an error of JSON-RPC under a status.
func (v *visit) sayError(status, code int, message string) {
	v.reply(status, "application/json", v.errorMessage(string(v.id), code, message))
}

func (v *visit) errorMessage(id string, code int, message string) string {
	text, _ := json.Marshal(message) // a string always marshals
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, text)
}

// hang waits until the client has left.
func (v *visit) hang() { <-v.r.Context().Done() }

// begin sends the head of a reply and the beginning of its body.
func (v *visit) begin(status int, contentType, text string) {
	v.reply(status, contentType, text)
	_ = v.flush()
}

func (v *visit) flush() error { return http.NewResponseController(v.w).Flush() }

// floods send until the client has left, or for floodMost bytes.
const floodMost = 1 << 30

// flood repeats a text until the client has left.
func (v *visit) flood(text string) {
	if text == "" {
		return
	}
	block := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	for n := 0; n < floodMost && v.r.Context().Err() == nil; n += len(block) {
		if _, err := v.w.Write(block); err != nil {
			return
		}
	}
}

// dripPace is the pace of those who are slow, but not too slow.
const dripPace = 500 * time.Microsecond

// drip sends a text byte by byte, and reports whether the client has waited
// for all of it.
func (v *visit) drip(text string, every time.Duration) bool {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range len(text) {
		select {
		case <-v.r.Context().Done():
			return false
		case <-ticker.C:
		}
		if _, err := io.WriteString(v.w, text[i:i+1]); err != nil {
			return false
		}
		_ = v.flush()
	}
	return true
}

// eventStream is a reply under way that is a stream of events.
type eventStream struct{ v *visit }

// events begins an event stream.
func (v *visit) events() eventStream {
	header := v.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	v.w.WriteHeader(http.StatusOK)
	_ = v.flush()
	return eventStream{v}
}

// send sends a piece of the stream and reports whether the client is there.
func (e eventStream) send(format string, args ...any) bool {
	if _, err := fmt.Fprintf(e.v.w, format, args...); err != nil {
		return false
	}
	return e.v.flush() == nil
}

// message sends an event that holds a message.
func (e eventStream) message(text string) bool { return e.send("data: %s\n\n", text) }

// bareConn is the connection of a request, taken over from net/http.
type bareConn struct {
	net.Conn
	in *bufio.Reader
}

// bare takes the connection over for whatever is no HTTP. It is closed when do
// returns.
func (v *visit) bare(do func(c *bareConn)) {
	conn, rw, err := http.NewResponseController(v.w).Hijack()
	if err != nil {
		http.Error(v.w, "this misbehaviour needs a connection of HTTP/1: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	do(&bareConn{Conn: conn, in: rw.Reader})
}

// write sends bytes as they are, and reports whether the client is there.
func (c *bareConn) write(format string, args ...any) bool {
	_, err := fmt.Fprintf(c.Conn, format, args...)
	return err == nil
}

// wait returns when the client has closed the connection.
func (c *bareConn) wait() { _, _ = io.Copy(io.Discard, c.in) }

// reset ends the connection with a RST instead of a FIN.
func (c *bareConn) reset() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// finish sends a FIN and goes on reading.
func (c *bareConn) finish() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.CloseWrite()
	}
	c.wait()
}

func (c *bareConn) tcp() *net.TCPConn {
	conn := c.Conn
	if counted, ok := conn.(*zooConn); ok {
		conn = counted.Conn
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// rawReply writes a whole reply by hand, with the headers given as lines, and
// closes the connection.
func rawReply(status string, headers []string, body string) act {
	return rawBytes("HTTP/1.1 " + status + "\r\nConnection: close\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body)
}

// rawBytes writes a text as it is and closes the connection.
func rawBytes(text string) act {
	return func(v *visit) { v.bare(func(c *bareConn) { c.write("%s", text) }) }
}
