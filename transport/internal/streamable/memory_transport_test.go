package streamable

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/mcpvisor/mcpvisor"
)

// memoryTransport is an httpServer without a network, so that tests can use virtual time.
// It is a RoundTripper, and records which of its response bodies are open.
type memoryTransport struct {
	*httpServer
	handler http.Handler // serves the requests; nil: httpServer
	mu      sync.Mutex
	open    map[*memoryBody]struct{}
}

func newMemoryTransport(t *testing.T) *memoryTransport {
	t.Helper()
	d := &memoryTransport{open: make(map[*memoryBody]struct{}), httpServer: &httpServer{testServer: newTestServer(), session: "session-1"}}
	t.Cleanup(func() { close(d.quit) })
	return d
}

func (d *memoryTransport) spec() mcpvisor.ServerSpec {
	spec := specFor("http://wireless.invalid/mcp")
	spec.HTTP.Client = &http.Client{Transport: d}
	return spec
}

// unclosed returns method and path of the requests whose response bodies are open.
func (d *memoryTransport) unclosed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for b := range maps.Keys(d.open) {
		found = append(found, b.request)
	}
	slices.Sort(found)
	return found
}

// RoundTrip implements http.RoundTripper. As over a network, the end of the request's
// context also ends the response body.
func (d *memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body, feed := io.Pipe()
	w := &memoryWriter{header: make(http.Header), feed: feed, begun: make(chan struct{})}
	r := req.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		defer func() {
			if recover() != nil {
				feed.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = feed.Close()
		}()
		if d.handler != nil {
			d.handler.ServeHTTP(w, r)
			return
		}
		d.ServeHTTP(w, r)
	}()
	context.AfterFunc(ctx, func() { feed.CloseWithError(ctx.Err()) })
	select {
	case <-w.begun:
	case <-handled:
	case <-ctx.Done():
	}
	select {
	case <-w.begun:
	default:
		cancel()
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	b := &memoryBody{PipeReader: body, transport: d, cancel: cancel, request: req.Method + " " + req.URL.Path}
	d.mu.Lock()
	d.open[b] = struct{}{}
	d.mu.Unlock()
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: b, ContentLength: -1, Request: req}, nil
}

// memoryWriter is the http.ResponseWriter of one request.
type memoryWriter struct {
	header, sent http.Header
	status       int
	feed         *io.PipeWriter
	begun        chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.feed.Write(p)
}

// Flush implements http.Flusher.
func (w *memoryWriter) Flush() {}

// memoryBody is the response body of one request.
type memoryBody struct {
	*io.PipeReader
	transport *memoryTransport
	cancel    func()
	request   string
}

// Close implements io.Closer.
func (b *memoryBody) Close() error {
	b.transport.mu.Lock()
	delete(b.transport.open, b)
	b.transport.mu.Unlock()
	b.cancel()
	return b.PipeReader.Close()
}
