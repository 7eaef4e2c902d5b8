package endpoint

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxRedirects bounds how many redirects one request follows.
	maxRedirects = 5
	// maxPooled bounds the idle connections that one session keeps.
	maxPooled = 256
)

// Endpoint sends the HTTP requests of one session; see Do. It also records when the
// server last sent anything.
//
// New sets the fields. They do not change afterwards, except where a remark says so.
// Safe for concurrent use.
type Endpoint struct {
	URL          *url.URL
	Target       string      // the URL without its secrets, for errors and logs
	HostPort     string      // host:port of URL
	host         string      // of the Host header
	specHeaders  http.Header // Headers of the ServerSpec; sent with every request
	RoundTripper http.RoundTripper
	jar          http.CookieJar // of HTTP.Client; nil: no cookies
	conns        *connTracker
	// decompresses: the endpoint asks for compressed bodies and decompresses them itself.
	decompresses bool
	// hostRoundTripper: RoundTripper is the application's own type, and not an
	// http.Transport. It need not report when it has a connection. Therefore a failed
	// request never counts as not sent.
	hostRoundTripper bool
	LastReceived     jsonrpc.LastReceived
	// postTarget is the address for POSTs of a session over HTTP+SSE; nil: URL. The
	// goroutine that reads the event stream sets it once.
	postTarget atomic.Pointer[postTarget]
	secrets    *strings.Replacer // replaces the secrets of the ServerSpec
	// Auth obtains access tokens; nil: the only tokens are in specHeaders. Set it before
	// the first request.
	Auth *oauth.Authorizer
	// OnUnauthorized is called when the session has no valid token and cannot get one
	// without the user. Set it before the first request.
	OnUnauthorized func(*HTTPError)
}

// New makes the endpoint of one session with a server. It fails if the URL of the spec
// cannot be parsed. It opens no connection. held counts the requests that the application's
// RoundTripper does not return; all sessions of a server share it.
func New(spec mcpvisor.ServerSpec, held *hostcall.HeldRequests) (*Endpoint, error) {
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{URL: u, host: u.Host, Target: BareURL(u), HostPort: hostPort(u), specHeaders: http.Header{},
		conns: newConnTracker(), LastReceived: jsonrpc.NewLastReceived(), secrets: endpointSecrets(u, spec.HTTP.Headers, spec.Secrets...)}
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
		e.RoundTripper = e.tuneTransport(t.Clone(), spec.Limits.MaxInFlight)
		e.offerGzip(t)
	} else {
		// The connections belong to the application, so they are neither tracked nor closed.
		e.RoundTripper, e.hostRoundTripper = &hostcall.RoundTripper{Base: base, Held: held}, true
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

// followRedirects sends one request and follows redirects within the origin.
//
// It uses a RoundTripper and no http.Client, because a Client would follow redirects by
// other rules.
func (e *Endpoint) followRedirects(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	target := e.urlFor(r.Method)
	for redirects := 0; ; redirects++ {
		resp, httpErr := e.sendTo(ctx, target, r)
		if httpErr != nil {
			return nil, httpErr
		}
		next := e.redirectURL(resp, r.Method)
		if next == nil || redirects == maxRedirects {
			return resp, nil
		}
		if resp.ContentLength >= 0 && resp.ContentLength <= MaxErrorBody { // the connection can be reused
			drain(resp.Body)
		} else {
			_ = resp.Body.Close()
		}
		target = next
	}
}

// redirectURL returns the address to which a response redirects the request; nil if the
// redirect is not followed. A redirect is followed if it stays within the endpoint's
// origin and keeps the method (RFC 9110, section 15.4). A redirect that is not followed is
// the response of the request.
func (e *Endpoint) redirectURL(resp *http.Response, method string) *url.URL {
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if method != http.MethodGet {
			return nil
		}
	default:
		return nil
	}
	base := e.URL
	if resp.Request != nil && resp.Request.URL != nil {
		base = resp.Request.URL
	}
	next, err := base.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || !SameOrigin(next, e.URL) {
		return nil
	}
	return next
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

// NoteReceived records that the server has just sent something.
func (e *Endpoint) NoteReceived() { e.LastReceived.Note() }

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

// receivingBody is a response body that records when bytes of it arrive.
type receivingBody struct {
	io.ReadCloser
	endpoint *Endpoint
}

// Read implements io.Reader.
func (b *receivingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.endpoint.NoteReceived()
	}
	return n, err
}
