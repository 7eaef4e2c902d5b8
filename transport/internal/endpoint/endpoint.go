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
	"github.com/mcpvisor/mcpvisor/internal/guard"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// maxRedirects is how many redirects within the origin one request follows.
	maxRedirects = 5
	// maxPooled bounds the idle connections that one session keeps.
	maxPooled = 256
	// redirectDrainTimeout bounds the time spent on the body of a redirect, so that
	// its connection can be reused.
	redirectDrainTimeout = time.Second
)

// Endpoint sends the HTTP requests of one session. Do is the way for every request:
// it adds the access token, follows redirects within the origin, adds cookies, and
// records when the server last sent anything.
//
// The fields are set by New and not changed afterwards, except where they say so.
// Safe for concurrent use.
type Endpoint struct {
	URL          *url.URL
	Target       string // the URL without its secrets, for errors and logs
	HostPort     string
	host         string
	ownHeaders   http.Header // those of the specification; sent with every request
	RoundTripper http.RoundTripper
	jar          guard.Jar
	conns        *connTracker
	// hostTripper: the RoundTripper comes from the host. It may not report when it has
	// a connection, so that the outcome of a failed request is never certain.
	hostTripper  bool
	LastReceived jsonrpc.LastReceived
	// postTarget is the address for POSTs on a session over HTTP+SSE; nil: url.
	// Written once, by the goroutine that reads the event stream.
	postTarget atomic.Pointer[postTarget]
	secrets    *strings.Replacer
	Auth       *oauth.Authorizer // nil: the only tokens are those of ownHeaders
	// OnUnauthorized is called when no request of the session can get a token without
	// the user. Set it before the first request.
	OnUnauthorized func(*HTTPError)
}

// New makes the endpoint of one session from the specification of its server. It fails
// if the URL cannot be parsed. It connects to nothing.
func New(spec mcpvisor.ServerSpec) (*Endpoint, error) {
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{URL: u, host: u.Host, Target: BareURL(u), HostPort: hostPort(u), ownHeaders: http.Header{},
		conns: newConnTracker(), LastReceived: jsonrpc.NewLastReceived(), secrets: endpointSecrets(u, spec.HTTP.Headers, spec.Secrets...)}
	if password, _ := u.User.Password(); u.User != nil {
		e.ownHeaders["Authorization"] = []string{"Basic " + basicToken(u.User.Username(), password)}
	}
	for name, value := range spec.HTTP.Headers {
		switch name = http.CanonicalHeaderKey(name); {
		case name == "Host":
			e.host = value
		case IsProtocolHeader(name):
			// The protocol sets these itself; another value would break it.
		default:
			e.ownHeaders[name] = []string{value}
		}
	}
	base := http.DefaultTransport
	if theirs := spec.HTTP.Client; theirs != nil {
		e.jar = guard.NewJar(theirs.Jar)
		if theirs.Transport != nil {
			base = theirs.Transport
		}
	}
	if t, ok := base.(*http.Transport); ok {
		e.RoundTripper = e.tuneTransport(t.Clone(), spec.Limits.MaxInFlight)
	} else {
		// The connections belong to the host, so they are neither counted nor closed.
		e.RoundTripper, e.hostTripper = guard.NewRoundTripper(base, new(guard.Abandoned)), true
	}
	return e, nil
}

// tuneTransport prepares a transport for many concurrent calls to one host. The
// transport belongs to one session, so its connections end with that session.
func (e *Endpoint) tuneTransport(t *http.Transport, inFlight int) *http.Transport {
	pool := min(inFlight, maxPooled) + 2 // the event stream, and one in reserve
	t.MaxIdleConnsPerHost = max(t.MaxIdleConnsPerHost, pool)
	if t.MaxIdleConns != 0 {
		t.MaxIdleConns = max(t.MaxIdleConns, pool)
	}
	// A limit on the wait for response headers would end calls whose tools work long
	// before they answer.
	t.ResponseHeaderTimeout = 0
	if t.MaxResponseHeaderBytes == 0 {
		t.MaxResponseHeaderBytes = maxHeader
	}
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	}
	guard.Transport(t)
	t.OnProxyConnectResponse = withProxyRefusal(t.OnProxyConnectResponse)
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	t.DialContext = e.conns.track(t.DialContext)
	if t.DialTLSContext != nil {
		t.DialTLSContext = e.conns.track(t.DialTLSContext)
	}
	return t
}

// NewHeader returns a new header with the endpoint's own fields, and room for size
// more.
func (e *Endpoint) NewHeader(size int) http.Header {
	h := make(http.Header, len(e.ownHeaders)+size)
	maps.Copy(h, e.ownHeaders)
	return h
}

// followRedirects sends one request and follows redirects within the origin.
//
// It uses net/http's Transport without its Client: the Client works on each request
// too, and its redirect rules are not those of the endpoint.
func (e *Endpoint) followRedirects(ctx context.Context, r OutgoingRequest) (*http.Response, *HTTPError) {
	target := e.urlFor(r.Method)
	for redirects := 0; ; redirects++ {
		resp, f := e.sendTo(ctx, target, r)
		if f != nil {
			return nil, f
		}
		next := e.redirectURL(resp, r.Method)
		if next == nil || redirects == maxRedirects {
			resp.Body = &receivingBody{ReadCloser: resp.Body, noteReceived: e.NoteReceived}
			return resp, nil
		}
		if resp.ContentLength >= 0 && resp.ContentLength <= MaxErrorBody { // read to the end, so that the connection can be reused
			late := time.AfterFunc(redirectDrainTimeout, func() { _ = resp.Body.Close() })
			_, _ = io.Copy(io.Discard, resp.Body)
			late.Stop()
		}
		_ = resp.Body.Close()
		target = next
	}
}

// redirectURL returns the address to which a response redirects the request; nil if
// the redirect is not followed. It is followed within the endpoint's origin, and if
// the method stays the same (RFC 9110, section 15.4). Otherwise the redirect is the
// reply.
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

// IsProtocolHeader reports whether MCP or HTTP sets a header itself, so that the
// specification of a server cannot.
func IsProtocolHeader(name string) bool {
	switch name {
	case "Accept", "Content-Type", "Content-Length", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(name, "Mcp-")
}

// NoteReceived records that the server has just sent something.
func (e *Endpoint) NoteReceived() { e.LastReceived.Note() }

// AwaitRoundTripper waits until the host's RoundTripper has returned every request,
// at most for limit. It returns how many goroutines are left behind in it.
func (e *Endpoint) AwaitRoundTripper(limit time.Duration) int {
	if t, ok := e.RoundTripper.(*guard.RoundTripper); ok {
		return t.Settle(limit)
	}
	return 0
}

// Close closes every connection of the session.
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

// hostPort is host:port, with the default port of the scheme filled in.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// receivingBody records when bytes of a body arrive.
type receivingBody struct {
	io.ReadCloser
	noteReceived func()
}

// Read implements io.Reader.
func (b *receivingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.noteReceived()
	}
	return n, err
}
