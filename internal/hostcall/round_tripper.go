package hostcall

import (
	"fmt"
	"io"
	"net/http"
)

// RoundTripper sends requests through a RoundTripper of the host. A panic or the end of a
// goroutine in it, or in a body that it returned, fails the request. Like net/http it demands
// that the host honours the context of a request, and that Close of a body ends its Read.
type RoundTripper struct{ Base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := Value("RoundTripper", func() (*http.Response, error) { return t.Base.RoundTrip(req) })
	if resp == nil || resp.Body == nil {
		return resp, err
	}
	own := *resp // the host may return the same response each time
	own.Body = &body{resp.Body}
	if err != nil {
		_ = own.Body.Close()
		return nil, err
	}
	return &own, nil
}

// body is a response body of the host.
type body struct{ host io.ReadCloser }

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	n, err = Value("response body", func() (int, error) { return b.host.Read(p) })
	if n < 0 || n > len(p) {
		return 0, fmt.Errorf("the host's response body read %d bytes into %d", n, len(p))
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error { return Call("response body", b.host.Close) }
