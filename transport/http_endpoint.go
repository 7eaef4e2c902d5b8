package transport

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
)

const (
	// maxRedirects is how many redirects within the origin are followed.
	maxRedirects = 5
	// maxPooled bounds the idle connections that one session keeps.
	maxPooled = 256
)

// endpoint is the place where one session sends its HTTP requests. Everything
// passes through do: the endpoint's own headers, its tokens, its redirect rules,
// and the note of when the server was last heard.
type endpoint struct {
	url      *url.URL
	target   string // the URL without its secrets
	hostport string
	host     string
	own      http.Header // the endpoint's own headers
	rt       http.RoundTripper
	jar      guard.Jar
	conns    *connSet
	// foreign: the RoundTripper is the host's own and may not report when it
	// has a connection.
	foreign bool
	heard   lastHeard
	// posts is where POSTs go on a session over HTTP+SSE; nil: to url.
	posts   atomic.Pointer[postTarget]
	secrets *strings.Replacer
	auth    *oauth.Authorizer // nil: no tokens but those in own
	// refused is told when no token can be had without a person.
	refused func(*fault)
}

func newEndpoint(spec mcpvisor.ServerSpec) (*endpoint, error) {
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: u, host: u.Host, target: bareURL(u), hostport: hostPort(u), own: http.Header{},
		conns: newConnSet(), heard: lastHeard{start: time.Now()}, secrets: secretsOf(u, spec.HTTP.Headers, spec.Secrets...)}
	if password, _ := u.User.Password(); u.User != nil {
		e.own["Authorization"] = []string{"Basic " + basic(u.User.Username(), password)}
	}
	for name, value := range spec.HTTP.Headers {
		switch name = http.CanonicalHeaderKey(name); {
		case name == "Host":
			e.host = value
		case ownHeader(name):
			// Another value would break the protocol.
		default:
			e.own[name] = []string{value}
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
		e.rt = e.tune(t.Clone(), spec.Limits.MaxInFlight)
	} else {
		// Its connections belong to the host and are left alone.
		e.rt, e.foreign = guard.NewTripper(base, new(guard.Abandoned)), true
	}
	return e, nil
}

// tune makes a transport fit for many calls at once to one host. The copy
// belongs to one session, so that its connections end with it.
func (e *endpoint) tune(t *http.Transport, inFlight int) *http.Transport {
	pool := min(inFlight, maxPooled) + 2 // the event stream, and one to spare
	t.MaxIdleConnsPerHost = max(t.MaxIdleConnsPerHost, pool)
	if t.MaxIdleConns != 0 {
		t.MaxIdleConns = max(t.MaxIdleConns, pool)
	}
	// A limit for response headers would cut calls that think before they answer.
	t.ResponseHeaderTimeout = 0
	if t.MaxResponseHeaderBytes == 0 {
		t.MaxResponseHeaderBytes = maxHeader
	}
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	}
	guard.Transport(t)
	t.OnProxyConnectResponse = namingProxy(t.OnProxyConnectResponse)
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	t.DialContext = e.conns.tracked(t.DialContext)
	if t.DialTLSContext != nil {
		t.DialTLSContext = e.conns.tracked(t.DialTLSContext)
	}
	return t
}

// header begins a header with what belongs to the endpoint itself.
func (e *endpoint) header(size int) http.Header {
	h := make(http.Header, len(e.own)+size)
	maps.Copy(h, e.own)
	return h
}

// follow sends one request and follows its redirects. net/http's Transport is used without its Client, whose work for each
// request is of no use here: it knows nothing of our rules for redirects.
func (e *endpoint) follow(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, *fault) {
	target := e.targetOf(method)
	for redirects := 0; ; redirects++ {
		resp, f := e.send(ctx, method, target, body, header)
		if f != nil {
			return nil, f
		}
		next := e.redirect(resp, method)
		if next == nil || redirects == maxRedirects {
			resp.Body = &heardBody{ReadCloser: resp.Body, hear: e.hear}
			return resp, nil
		}
		if resp.ContentLength >= 0 && resp.ContentLength <= maxErrorBody { // so that the connection can be used again
			late := time.AfterFunc(drainWait, func() { _ = resp.Body.Close() })
			_, _ = io.Copy(io.Discard, resp.Body)
			late.Stop()
		}
		_ = resp.Body.Close()
		target = next
	}
}

// redirect is where a reply sends the request to, if that is followed: within
// the endpoint's origin, and only if the method survives it (RFC 9110, section
// 15.4). Otherwise the redirect itself is the reply.
func (e *endpoint) redirect(resp *http.Response, method string) *url.URL {
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if method != http.MethodGet {
			return nil
		}
	default:
		return nil
	}
	base := e.url
	if resp.Request != nil && resp.Request.URL != nil {
		base = resp.Request.URL
	}
	next, err := base.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || !sameOrigin(next, e.url) {
		return nil
	}
	return next
}

// ownHeader reports whether the protocol owns a header.
func ownHeader(name string) bool {
	switch name {
	case "Accept", "Content-Type", "Content-Length", "Last-Event-Id":
		return true
	}
	return strings.HasPrefix(name, "Mcp-")
}

func (e *endpoint) hear() { e.heard.note() }

// settle waits until a RoundTripper of the host's has let go of every request, no
// longer than limit. It returns how many goroutines are left behind in it.
func (e *endpoint) settle(limit time.Duration) int {
	if t, ok := e.rt.(*guard.Tripper); ok {
		return t.Settle(limit)
	}
	return 0
}

// close ends every connection that is left.
func (e *endpoint) close() {
	if t, ok := e.rt.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	e.conns.closeAll()
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(hostPort(a), hostPort(b))
}

// hostPort is host:port with the scheme's own port filled in.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// heardBody notes every byte that arrives.
type heardBody struct {
	io.ReadCloser
	hear func()
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.hear()
	}
	return n, err
}
