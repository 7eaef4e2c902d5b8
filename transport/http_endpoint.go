package transport

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor/messages"
)

const (
	// maxRedirects is how many redirects within the origin are followed.
	maxRedirects = 5
	// maxPooled bounds the idle connections that one session keeps.
	maxPooled = 256
	// secretLength is the shortest value that is worth hiding in a text: a
	// shorter one would hide half of the text instead.
	secretLength = 6
)

// endpoint is the place where one session sends its HTTP requests. Everything
// passes through do: the endpoint's own headers, its redirect rules, and the
// note of when the server was last heard.
type endpoint struct {
	url      *url.URL
	target   string // the URL without its secrets
	hostport string
	host     string
	own      http.Header // the endpoint's own headers
	rt       http.RoundTripper
	jar      http.CookieJar
	conns    *connSet
	// foreign: the RoundTripper is the host's own and may not report when it
	// has a connection.
	foreign bool
	heard   atomic.Int64 // unix nanoseconds
	secrets *strings.Replacer
}

func newEndpoint(spec messages.ServerSpec) (*endpoint, error) {
	u, err := url.Parse(spec.HTTP.URL)
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: u, host: u.Host, target: bareURL(u), hostport: hostPort(u), own: http.Header{},
		conns: newConnSet(), secrets: secretsOf(u, spec.HTTP.Headers)}
	if password, _ := u.User.Password(); u.User != nil {
		login := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		e.own["Authorization"] = []string{"Basic " + login}
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
		e.jar = theirs.Jar
		if theirs.Transport != nil {
			base = theirs.Transport
		}
	}
	if t, ok := base.(*http.Transport); ok {
		e.rt = e.tune(t.Clone(), spec.Limits.InFlight)
	} else {
		// Its connections belong to the host and are left alone.
		e.rt, e.foreign = base, true
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
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	}
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	t.DialContext = e.conns.tracked(dial)
	return t
}

// header begins a header with what belongs to the endpoint itself.
func (e *endpoint) header(size int) http.Header {
	h := make(http.Header, len(e.own)+size)
	maps.Copy(h, e.own)
	return h
}

// do sends one request. header is only read. The body of the response must be
// closed. net/http's Transport is used without its Client, whose work for each
// request is of no use here: it knows nothing of our rules for redirects.
func (e *endpoint) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, *fault) {
	target := e.url
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
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody) // so that the connection can be used again
		_ = resp.Body.Close()
		target = next
	}
}

// send makes one round trip.
func (e *endpoint) send(ctx context.Context, method string, target *url.URL, body []byte, header http.Header) (*http.Response, *fault) {
	if e.jar != nil || e.foreign {
		header = maps.Clone(header) // foreign code is known to write to it
	}
	req := (&http.Request{Method: method, URL: target, Host: e.host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if body != nil {
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	if e.jar != nil {
		for _, cookie := range e.jar.Cookies(target) {
			req.AddCookie(cookie)
		}
	}
	resp, err := e.rt.RoundTrip(req)
	if err == nil && resp == nil {
		err = errors.New("the RoundTripper returned nothing")
	}
	if err != nil {
		b, bound := ctx.(*bond)
		return nil, e.connectFault(err, !bound || b.connected.Load() || e.foreign && dialError(err) == nil)
	}
	e.hear()
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if e.jar != nil {
		if cookies := resp.Cookies(); len(cookies) > 0 {
			e.jar.SetCookies(target, cookies)
		}
	}
	return resp, nil
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

func (e *endpoint) hear() { e.heard.Store(time.Now().UnixNano()) }

// close ends every connection that is left.
func (e *endpoint) close() {
	if t, ok := e.rt.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	e.conns.closeAll()
}

// clean hides the secrets of the endpoint in a text that came from elsewhere:
// servers like to repeat the token that they refuse.
func (e *endpoint) clean(text string) string { return e.secrets.Replace(text) }

func secretsOf(u *url.URL, headers map[string]string) *strings.Replacer {
	var pairs []string
	hide := func(s string) {
		if len(s) >= secretLength {
			pairs = append(pairs, s, "***")
		}
	}
	hide(u.RawQuery)
	for _, values := range u.Query() {
		for _, v := range values {
			hide(v)
			hide(url.QueryEscape(v))
		}
	}
	if password, ok := u.User.Password(); ok {
		hide(password)
	}
	hide(u.User.Username())
	for _, v := range headers {
		hide(v)
		if _, token, ok := strings.Cut(v, " "); ok { // "Bearer token"
			hide(token)
		}
	}
	return strings.NewReplacer(pairs...)
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
