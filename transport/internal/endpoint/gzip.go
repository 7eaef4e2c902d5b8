package endpoint

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// offerGzip makes every request offer gzip, as net/http does, and the endpoint decompress
// the responses. net/http would do both by itself, but it would build a second header for
// every request. offerGzip does nothing where net/http would not offer gzip: if the
// application has disabled compression, or has set the header itself.
func (e *Endpoint) offerGzip(t *http.Transport) {
	if t.DisableCompression || e.specHeaders["Accept-Encoding"] != nil || e.specHeaders["Range"] != nil {
		return
	}
	e.specHeaders["Accept-Encoding"] = []string{"gzip"}
	e.decompresses = true
}

// decompress replaces the body of a compressed response. Like net/http it removes the
// headers that describe the compressed body.
func (e *Endpoint) decompress(resp *http.Response) {
	if !e.decompresses || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &gzipBody{packed: resp.Body}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
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
