package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"strings"
)

// DialFunc makes a connection.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

var errNoConn = errors.New("the host's dial function returned neither a connection nor an error")

// Transport guards the functions of a transport. t is a clone that belongs to the
// caller. net/http calls most of these functions in its own goroutines.
func Transport(t *http.Transport) {
	if proxy := t.Proxy; proxy != nil && !IsFuncNamed(proxy, "net/http.ProxyFromEnvironment", "net/http.ProxyURL.", ".ProxyURL.func") {
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			return Wait(req.Context(), "Proxy function", nil, func(context.Context) (*url.URL, error) { return proxy(req) })
		}
	}
	if old := t.Dial; t.DialContext == nil && old != nil { //nolint:staticcheck // net/http still calls it
		t.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) { return old(network, addr) }
	}
	if old := t.DialTLS; t.DialTLSContext == nil && old != nil { //nolint:staticcheck // net/http still calls it
		t.DialTLSContext = func(_ context.Context, network, addr string) (net.Conn, error) { return old(network, addr) }
	}
	t.Dial, t.DialTLS = nil, nil //nolint:staticcheck // see above
	t.DialContext, t.DialTLSContext = Dial(t.DialContext), Dial(t.DialTLSContext)
	if header := t.GetProxyConnectHeader; header != nil {
		t.GetProxyConnectHeader = func(ctx context.Context, proxy *url.URL, target string) (http.Header, error) {
			return Value("GetProxyConnectHeader", func() (http.Header, error) { return header(ctx, proxy, target) })
		}
	}
	if response := t.OnProxyConnectResponse; response != nil {
		t.OnProxyConnectResponse = func(ctx context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
			return Call("OnProxyConnectResponse", func() error { return response(ctx, proxy, req, resp) })
		}
	}
	for proto, next := range t.TLSNextProto {
		t.TLSNextProto[proto] = func(authority string, c *tls.Conn) http.RoundTripper {
			rt, err := Value("TLSNextProto", func() (http.RoundTripper, error) { return next(authority, c), nil })
			if err != nil {
				return failingRoundTripper{err}
			}
			return rt
		}
	}
	if t.TLSClientConfig != nil {
		guardTLS(t.TLSClientConfig)
	}
}

// failingRoundTripper replaces a RoundTripper whose constructor panicked.
type failingRoundTripper struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failingRoundTripper) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// IsFuncNamed reports whether f is a function whose name contains one of names. It
// recognizes functions of the standard library, which need no guard.
func IsFuncNamed(f any, names ...string) bool {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Func || v.IsNil() {
		return false
	}
	fn := runtime.FuncForPC(v.Pointer())
	for _, name := range names {
		if fn != nil && strings.Contains(fn.Name(), name) {
			return true
		}
	}
	return false
}

// Dial guards a dial function and the connections that it makes. A *tls.Conn stays
// as it is, because net/http has to recognize it. It returns nil for nil.
func Dial(dial DialFunc) DialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := Value("dial function", func() (net.Conn, error) { return dial(ctx, network, addr) })
		switch conn := c.(type) {
		case nil:
			if err == nil {
				err = errNoConn
			}
			return nil, err
		case *net.TCPConn, *net.UnixConn, *tls.Conn:
			return conn, err
		}
		if err != nil {
			return nil, err
		}
		return &Conn{c}, nil
	}
}
