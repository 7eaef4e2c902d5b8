package endpoint

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/serverconn"
)

// maxPooled bounds the idle connections that one session keeps.
const maxPooled = 256

// Endpoint sends the HTTP requests of one session; see Do.
//
// New sets the fields. They do not change afterwards, except where a remark says so.
// Safe for concurrent use.
type Endpoint struct {
	URL          *url.URL
	ShownURL     string                                           // the URL without its secrets, for errors and logs
	HostPort     string                                           // host:port of URL
	host         string                                           // of the Host header
	specHeaders  http.Header                                      // Headers of the ServerSpec; sent with every request
	headerFunc   func(context.Context) (map[string]string, error) // of the ServerSpec; nil: none
	RoundTripper http.RoundTripper
	jar          http.CookieJar // of HTTP.Client; nil: no cookies
	conns        *connTracker
	// hostRoundTripper: RoundTripper is the application's own type, and not an
	// http.Transport. It need not report when it has a connection. Therefore a failed
	// request never counts as not sent.
	hostRoundTripper bool
	// postURL is the address for POSTs of a session over HTTP+SSE; nil: URL. The
	// goroutine that reads the event stream sets it once.
	postURL atomic.Pointer[postURL]
	secrets *strings.Replacer // replaces the secrets of the ServerSpec
	// Auth supplies the credentials; nil: the only ones are in specHeaders. Set it before the
	// first request.
	Auth mcpvisor.Authorizer
	// OnUnauthorized is called when the session has no valid credential and cannot get one
	// without the user. Set it before the first request.
	OnUnauthorized func(*HTTPError)
}

// New makes the endpoint of one session with a server. It fails if the URL of the spec
// cannot be parsed. It opens no connection.
func New(spec mcpvisor.ServerSpec) (*Endpoint, error) {
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{URL: u, host: u.Host, ShownURL: BareURL(u), HostPort: hostPort(u), specHeaders: http.Header{}, headerFunc: spec.HTTP.HeaderFunc,
		conns: newConnTracker(), secrets: endpointSecrets(u, spec.HTTP.Headers, spec.Secrets...)}
	if password, _ := u.User.Password(); u.User != nil {
		e.specHeaders["Authorization"] = []string{"Basic " + basicToken(u.User.Username(), password)}
	}
	for name, value := range spec.HTTP.Headers {
		switch name = http.CanonicalHeaderKey(name); {
		case name == "Host":
			e.host = value
		case IsProtocolHeader(name):
			// The session sets these itself; another value would break the protocol.
		default:
			e.specHeaders[name] = []string{value}
		}
	}
	base := http.DefaultTransport
	if client := spec.HTTP.Client; client != nil {
		e.jar = client.Jar
		if client.Transport != nil {
			base = client.Transport
		}
	}
	if t, ok := base.(*http.Transport); ok {
		own := t.Clone()
		serverconn.Configure(own, spec.HTTP)
		e.RoundTripper = e.tuneTransport(own, spec.Limits.MaxInFlight)
		e.offerGzip(t)
	} else {
		// The connections belong to the application, so they are neither tracked nor closed.
		e.RoundTripper, e.hostRoundTripper = &hostcall.RoundTripper{Base: base}, true
	}
	return e, nil
}

// tuneTransport prepares a transport for up to inFlight concurrent calls to one server.
// The transport belongs to one session, so its connections end with that session.
func (e *Endpoint) tuneTransport(t *http.Transport, inFlight int) *http.Transport {
	pool := min(inFlight, maxPooled) + 2 // one for the event stream, and one extra
	t.MaxIdleConnsPerHost = max(t.MaxIdleConnsPerHost, pool)
	if t.MaxIdleConns != 0 {
		t.MaxIdleConns = max(t.MaxIdleConns, pool)
	}
	// A bound on the wait for response headers would end calls of slow tools; the
	// deadlines of calls bound that wait.
	t.ResponseHeaderTimeout = 0
	if t.MaxResponseHeaderBytes == 0 {
		t.MaxResponseHeaderBytes = maxHeader
	}
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	}
	t.OnProxyConnectResponse = withProxyRefusal(t.OnProxyConnectResponse)
	dial, dialTLS := hostcall.DialFuncs(t)
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	t.DialContext = e.conns.track(dial)
	if dialTLS != nil {
		t.DialTLSContext = e.conns.track(dialTLS)
	}
	return t
}

// NewHeader returns a new header with the headers of the ServerSpec, and room for size
// more fields.
func (e *Endpoint) NewHeader(size int) http.Header {
	h := make(http.Header, len(e.specHeaders)+size)
	maps.Copy(h, e.specHeaders)
	return h
}

// IsProtocolHeader reports whether the session itself sets a header. Headers of the
// ServerSpec cannot replace it.
func IsProtocolHeader(name string) bool {
	switch name {
	case "Accept", "Content-Type", "Content-Length", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(name, "Mcp-")
}

// Close closes all connections of the session.
func (e *Endpoint) Close() {
	if t, ok := e.RoundTripper.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	e.conns.closeAll()
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(hostPort(a), hostPort(b))
}

// hostPort returns host:port, with the default port of the scheme if the URL has none.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
