package endpoint

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
)

// IsHTML reports whether a body is a web page, by its media type or by its first
// character.
func IsHTML(contentType string, body []byte) bool {
	if t := mediaType(contentType); t == "text/html" || t == "application/xhtml+xml" {
		return true
	}
	return bytes.HasPrefix(bytes.TrimSpace(body[:min(len(body), 64)]), []byte("<"))
}

// mediaType returns the type of a Content-Type header, without its parameters and in lower
// case. It needs no mime.ParseMediaType, which allocates: the parameters do not matter.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// IsEventStream reports whether a response is a stream of server-sent events.
func IsEventStream(resp *http.Response) bool {
	return mediaType(resp.Header.Get("Content-Type")) == "text/event-stream"
}

// BodyTimeout bounds the wait for the body of a response whose status has said what matters:
// an error status, a redirect, a rejected token.
const BodyTimeout = time.Second

// LimitTime closes a body after BodyTimeout, so that a Read of it fails, unless the timer is
// stopped before.
func LimitTime(body io.Closer) *overdue.Timer {
	return overdue.AfterFunc(BodyTimeout, func() { _ = body.Close() })
}

// ReadErrorBody returns the text of an error status: its first MaxErrorBody bytes, as far as
// they arrive within BodyTimeout. It does not close the body.
func ReadErrorBody(resp *http.Response) []byte {
	defer LimitTime(resp.Body).Stop()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	return text
}

// drain reads a body to its end, so that its connection can be reused, and closes it. It
// gives up after BodyTimeout or MaxErrorBody bytes.
func drain(body io.ReadCloser) {
	late := LimitTime(body)
	_, _ = io.CopyN(io.Discard, body, MaxErrorBody)
	late.Stop()
	_ = body.Close()
}

// offerGzip makes every request offer gzip, as net/http does, and the endpoint decompress
// the responses. net/http would do both by itself, but it would build a second header for
// every request. offerGzip does nothing where net/http would not offer gzip: if the
// application has disabled compression, or has set the header itself.
func (e *Endpoint) offerGzip(t *http.Transport) {
	if t.DisableCompression || e.specHeaders["Accept-Encoding"] != nil || e.specHeaders["Range"] != nil {
		return
	}
	e.specHeaders["Accept-Encoding"] = []string{"gzip"}
}

// decompress replaces the body of a compressed response. Like net/http it removes the
// headers that describe the compressed body. Reading a body in an encoding that nothing
// here reads fails with an encodingError.
func decompress(resp *http.Response) {
	switch encoding := strings.ToLower(resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return
	case "gzip", "x-gzip":
		resp.Body = &gzipBody{packed: resp.Body}
	default:
		resp.Body = &undecodedBody{resp.Body, encodingError(encoding)}
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// encodingError is the error of a body in a Content-Encoding that no request has offered.
type encodingError string

func (e encodingError) Error() string {
	return fmt.Sprintf("the answer has the Content-Encoding %q, which the request did not offer", display.Shorten(display.Line(string(e)), display.MaxQuoteBytes))
}

// undecodedBody is a body that cannot be read. An empty one can.
type undecodedBody struct {
	io.ReadCloser
	err encodingError
}

// Read implements io.Reader.
func (b *undecodedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		return 0, b.err
	}
	return 0, err
}

// gzipBody is the decompressed body of a response. The goroutine that reads it owns zip and
// err. Close may be called by any goroutine.
type gzipBody struct {
	packed io.ReadCloser
	zip    *gzip.Reader // nil before the first Read
	err    error        // why zip cannot be made
}

// Read implements io.Reader. The first Read reads the header of the compressed data, which
// may arrive much later than the header of the response.
func (b *gzipBody) Read(p []byte) (int, error) {
	if b.zip == nil && b.err == nil {
		b.zip, b.err = gzip.NewReader(b.packed)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.zip.Read(p)
}

// Close implements io.Closer.
func (b *gzipBody) Close() error { return b.packed.Close() }
