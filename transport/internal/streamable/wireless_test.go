package streamable

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// wireless is a scripted server without a network between, so that its clock is
// that of a test's bubble. It knows which of its replies nobody has closed.
type wireless struct {
	*scripted
	mu   sync.Mutex
	open map[*wirelessBody]struct{}
}

func newWireless(t *testing.T) *wireless {
	t.Helper()
	d := &wireless{open: make(map[*wirelessBody]struct{}), scripted: &scripted{session: "session-1", quit: make(chan struct{}),
		on: make(map[string]func(http.ResponseWriter, *http.Request, json.RawMessage))}}
	t.Cleanup(func() { close(d.quit) })
	return d
}

func (d *wireless) spec() mcpvisor.ServerSpec {
	spec := httpSpec("http://wireless.invalid/mcp")
	spec.HTTP.Client = &http.Client{Transport: d}
	return spec
}

// unclosed is what was asked for with the replies that are still open.
func (d *wireless) unclosed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for b := range maps.Keys(d.open) {
		found = append(found, b.what)
	}
	slices.Sort(found)
	return found
}

// RoundTrip implements http.RoundTripper. As over a network, the request's
// context ends the reply too.
func (d *wireless) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body, feed := io.Pipe()
	w := &wirelessWriter{header: make(http.Header), feed: feed, begun: make(chan struct{})}
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
	b := &wirelessBody{PipeReader: body, of: d, cancel: cancel, what: req.Method + " " + req.URL.Path}
	d.mu.Lock()
	d.open[b] = struct{}{}
	d.mu.Unlock()
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: b, ContentLength: -1, Request: req}, nil
}

type wirelessWriter struct {
	header, sent http.Header
	status       int
	feed         *io.PipeWriter
	begun        chan struct{}
}

func (w *wirelessWriter) Header() http.Header { return w.header }

func (w *wirelessWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

func (w *wirelessWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.feed.Write(p)
}

// Flush implements http.Flusher.
func (w *wirelessWriter) Flush() {}

type wirelessBody struct {
	*io.PipeReader
	of     *wireless
	cancel func()
	what   string
}

// Close implements io.Closer.
func (b *wirelessBody) Close() error {
	b.of.mu.Lock()
	delete(b.of.open, b)
	b.of.mu.Unlock()
	b.cancel()
	return b.PipeReader.Close()
}

// openWireless opens a session that is released at the end of the test.
func openWireless(t *testing.T, spec mcpvisor.ServerSpec) *httpSession {
	t.Helper()
	s := httpDialerFor(spec).NewSession().(*httpSession)
	transporttest.ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(transporttest.Context(t)))
	return s
}
