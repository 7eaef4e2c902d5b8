package hostilehttp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// replyMessage replies 200 with a JSON-RPC message.
func (req *request) replyMessage(message string) {
	req.reply(http.StatusOK, "application/json", message)
}

// reply replies with a status and a body. An empty contentType sends no Content-Type.
func (req *request) reply(status int, contentType, body string) {
	header := req.w.Header()
	header["Content-Type"] = nil // keeps net/http from guessing one
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	req.w.WriteHeader(status)
	_, _ = io.WriteString(req.w, body) // a failure means that the client has disconnected
}

// replyError replies with a JSON-RPC error under an HTTP status.
func (req *request) replyError(status, code int, message string) {
	req.reply(status, "application/json", req.errorMessage(string(req.id), code, message))
}

// errorMessage returns a JSON-RPC error message.
func (req *request) errorMessage(id string, code int, message string) string {
	text, _ := json.Marshal(message) // a string always marshals
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, text)
}

// waitForClient waits until the client disconnects.
func (req *request) waitForClient() { <-req.http.Context().Done() }

// beginReply sends the headers and the beginning of the body.
func (req *request) beginReply(status int, contentType, text string) {
	req.reply(status, contentType, text)
	_ = req.flush()
}

// flush sends everything that was written so far.
func (req *request) flush() error { return http.NewResponseController(req.w).Flush() }

// maxFloodBytes bounds what flood sends to a client that never disconnects.
const maxFloodBytes = 1 << 30

// flood repeats text until the client disconnects.
func (req *request) flood(text string) {
	if text == "" {
		return
	}
	block := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	for n := 0; n < maxFloodBytes && req.http.Context().Err() == nil; n += len(block) {
		if _, err := req.w.Write(block); err != nil {
			return
		}
	}
}

// dripInterval is the time between two bytes of a slow reply that still ends in time.
const dripInterval = 500 * time.Microsecond

// drip sends text byte by byte, one each interval. It reports whether the client stayed
// connected.
func (req *request) drip(text string, interval time.Duration) bool {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := range len(text) {
		select {
		case <-req.http.Context().Done():
			return false
		case <-ticker.C:
		}
		if _, err := io.WriteString(req.w, text[i:i+1]); err != nil {
			return false
		}
		_ = req.flush()
	}
	return true
}

// eventStream is a response that is an event stream.
type eventStream struct{ req *request }

// events sends the headers of an event stream.
func (req *request) events() eventStream {
	header := req.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	req.w.WriteHeader(http.StatusOK)
	_ = req.flush()
	return eventStream{req}
}

// send writes to the stream and reports whether the client is still connected.
func (e eventStream) send(format string, args ...any) bool {
	if _, err := fmt.Fprintf(e.req.w, format, args...); err != nil {
		return false
	}
	return e.req.flush() == nil
}

// message sends an event that holds a JSON-RPC message.
func (e eventStream) message(text string) bool { return e.send("data: %s\n\n", text) }
