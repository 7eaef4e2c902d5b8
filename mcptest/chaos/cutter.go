package chaos

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/serverconn"
)

// cutter is the transport of a server over HTTP. It can end all requests that are under way,
// event streams included, as a broken connection does.
type cutter struct {
	base http.RoundTripper

	mu      sync.Mutex
	cancels map[*context.CancelFunc]bool // of requests whose bodies are not closed; guarded by mu
}

// newCutter puts a cutter below the client of a copy.
func newCutter(spec *mcpvisor.HTTP) *cutter {
	t := &cutter{base: http.DefaultTransport, cancels: map[*context.CancelFunc]bool{}}
	client := &http.Client{Transport: t}
	if spec.Client != nil {
		client.Jar = spec.Client.Jar
		if spec.Client.Transport != nil {
			t.base = spec.Client.Transport
		}
	}
	if own, ok := t.base.(*http.Transport); ok {
		own = own.Clone() // so that CloseIdleConnections closes no one else's
		serverconn.Configure(own, spec)
		t.base, spec.Socket, spec.TLS = own, "", nil
	}
	spec.Client = client
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	key := &cancel
	t.mu.Lock()
	t.cancels[key] = true
	t.mu.Unlock()
	done := func() {
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.cancels, key)
	}
	response, err := t.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		return nil, err //nolint:wrapcheck // it is the transport
	}
	response.Body = &cutBody{response.Body, done}
	return response, nil
}

// CloseIdleConnections is called when the session is released.
func (t *cutter) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// cut ends all requests that are under way, and reports whether there were any.
func (t *cutter) cut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for cancel := range t.cancels {
		(*cancel)()
	}
	t.CloseIdleConnections()
	return len(t.cancels) > 0
}

// cutBody is a body that ends its request when it is closed.
type cutBody struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *cutBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close() //nolint:wrapcheck // it is the body
}
