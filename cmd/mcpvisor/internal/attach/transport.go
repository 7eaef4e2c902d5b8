package attach

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// handlerTransport sends requests to a handler of the same process. The end of a request's
// context does not end RoundTrip: the handler sees the same context, and its answer says
// more than the error of a context.
type handlerTransport struct {
	handler http.Handler
}

// RoundTrip implements http.RoundTripper. The handler runs in a goroutine until it returns;
// closing the body cancels its context and then waits for it.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	// Package web serves no page without a token on a connection that may come from elsewhere.
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix"})
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	w := &pipeResponse{header: http.Header{}, body: writer, started: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		t.handler.ServeHTTP(w, r.WithContext(ctx))
		w.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	<-w.started
	body := &pipeBody{PipeReader: reader, end: func() {
		cancel()
		<-done
	}}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Header: w.sent, Body: body, Request: r}, nil
}

// pipeResponse is the http.ResponseWriter of one request. The goroutine of the handler uses
// it.
type pipeResponse struct {
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	started chan struct{} // closed when status and sent are set

	status int
	sent   http.Header // a copy of header
}

func (w *pipeResponse) Header() http.Header { return w.header }

func (w *pipeResponse) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

// Write implements http.ResponseWriter. It returns when the reader has taken the bytes.
func (w *pipeResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush implements http.Flusher: nothing is buffered.
func (w *pipeResponse) Flush() { w.WriteHeader(http.StatusOK) }

type pipeBody struct {
	*io.PipeReader
	end func()
}

// Close ends the handler, and returns when it has returned.
func (b *pipeBody) Close() error {
	err := b.PipeReader.Close() // a handler that writes gets an error
	b.end()
	return err
}
