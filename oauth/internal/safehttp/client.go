// Package safehttp makes HTTP requests to addresses that an MCP server named:
// metadata documents, authorization servers and their endpoints.
//
// Such an address may lead into a network that only this host can reach
// (server-side request forgery, SSRF). [Client] therefore checks every address,
// those of redirects included, in three steps:
//
//   - The scheme must be https, or http where the MCP server itself is reached
//     by http.
//   - A literal IP address must not be private, link-local or loopback.
//   - A name must not resolve to such an address. The check runs after the name
//     was resolved and before any byte is sent.
//
// Addresses that the host configured are trusted: the MCP server, Config.Issuer
// and the token endpoint of an identity provider. A server may name addresses of
// the same class as a trusted one, for example an authorization server in the
// private network that the MCP server is in.
//
// The package also sorts failures: [IsTemporary] reports whether it makes sense
// to try again later.
package safehttp

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/serverconn"
)

const (
	// maxDocumentBytes is the longest answer that is read.
	maxDocumentBytes = 1 << 20
	// maxRedirects is how many redirects of a metadata document are followed.
	maxRedirects = 5
)

// Client makes the requests for one MCP server. They are rare, so it keeps no
// connection open. Safe for concurrent use. All fields are set by New and never
// change.
type Client struct {
	server  *url.URL          // the MCP endpoint
	headers map[string]string // for the server's origin only
	trusted []*url.URL        // the addresses that the host configured
	http    *http.Client
	proxy   func(*http.Request) (*url.URL, error) // nil: no proxy
	dial    hostcall.DialFunc                     // without checks of the host's; nil: a RoundTripper of the host connects
}

// New returns a client for the MCP endpoint server. The spec supplies an optional
// HTTP client, and the headers for the server's own origin. trusted are addresses that the
// host configured, beside that of the server; those that are no URL are left out.
func New(server *url.URL, spec *mcpvisor.HTTP, trusted ...string) *Client {
	c := &Client{server: server, headers: spec.Headers, trusted: []*url.URL{server}} // first, because its class usually decides
	for _, text := range trusted {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			c.trusted = append(c.trusted, u)
		}
	}
	var base http.RoundTripper = http.DefaultTransport
	if spec.Client != nil && spec.Client.Transport != nil {
		base = spec.Client.Transport
	}
	// A clone of the host's transport keeps its TLS settings and its proxy. Any other
	// RoundTripper makes its own connections, so only the text of addresses is checked.
	if t, ok := base.(*http.Transport); ok {
		own := t.Clone()
		own.DisableKeepAlives = true
		c.checkConnections(own, t == http.DefaultTransport)
		if base = own; spec.Socket != "" || spec.TLS != nil {
			base = &specTransport{client: c, spec: spec, base: own}
		}
	} else {
		base = &hostcall.RoundTripper{Base: base}
	}
	c.http = &http.Client{Transport: &checkedTransport{client: c, base: base}, CheckRedirect: c.checkRedirect}
	return c
}

// specTransport connects to the server of a spec as that says, and to others without the
// credentials of it.
type specTransport struct {
	client *Client
	spec   *mcpvisor.HTTP
	base   *http.Transport // keeps no connection
}

// RoundTrip implements http.RoundTripper.
func (t *specTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	own := t.base.Clone()
	if SameOrigin(req.URL, t.client.server) {
		serverconn.Configure(own, t.spec)
	} else if err := serverconn.TrustCA(own, t.spec); err != nil {
		return nil, err
	}
	return own.RoundTrip(req)
}

// Server returns the URL of the MCP endpoint. It must not be changed.
func (c *Client) Server() *url.URL { return c.server }

// checkedTransport checks every request, those of redirects included, before its
// base sends it.
type checkedTransport struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It adds the headers of the spec to
// requests for the server's own origin, and to no other.
func (t *checkedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := t.client.newDestination(req.Context(), req.URL)
	if err != nil { // a RoundTripper must close the body in every case
		if req.Body != nil {
			_ = req.Body.Close()
		}
		if _, temporary := IsTemporary(err); temporary {
			return nil, err
		}
		return nil, &blockedError{err}
	}
	req = req.WithContext(context.WithValue(req.Context(), destinationKey{}, to))
	if SameOrigin(req.URL, t.client.server) {
		req.Header = req.Header.Clone() // a RoundTripper must not change the request
		for name, value := range t.client.headers {
			switch http.CanonicalHeaderKey(name) {
			case "Host", "Accept", "Content-Type", "Content-Length": // belong to the request
			default:
				req.Header.Set(name, value)
			}
		}
	}
	return t.base.RoundTrip(req)
}

// checkRedirect is http.Client.CheckRedirect. It follows redirects of a GET, never
// from https to http, and those of the request that [Client.Probe] sends.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	switch first := via[0]; { // via holds the requests before this one, oldest first
	case len(via) > maxRedirects:
		return &blockedError{fmt.Errorf("more than %d redirects", maxRedirects)}
	case req.Context().Value(sameOriginKey{}) != nil && Origin(first.URL) == Origin(req.URL):
		return nil
	case first.Method != http.MethodGet:
		return &blockedError{errRedirectRefused}
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return &blockedError{errors.New("a redirect leaves https")}
	}
	return nil
}

// sameOriginKey in the context of a request allows redirects within its origin,
// whatever its method.
type sameOriginKey struct{}

// checkScheme checks the scheme of an address that a server named. It must be
// https, or http where the MCP server itself is reached by http: the server's own
// host, or this machine for a server on this machine. The dialer checks where the
// address leads.
func (c *Client) checkScheme(u *url.URL) error {
	switch {
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("the address %q is not usable", Redacted(u))
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && c.server.Scheme == "http" && strings.EqualFold(u.Hostname(), c.server.Hostname()):
		return nil
	case u.Scheme == "http" && IsLoopback(u.Hostname()) && IsLoopback(c.server.Hostname()):
		return nil
	}
	return fmt.Errorf("the address %q is not https", Redacted(u))
}

// CheckURL checks the text of an address that a server named: its scheme, and its
// host if that is a literal IP address. name says in the error what the address
// is. It resolves no name; requests do that.
func (c *Client) CheckURL(ctx context.Context, name, address string) error {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return fmt.Errorf("the %s is missing or cannot be parsed", name)
	}
	if _, err := c.newDestination(ctx, u); err != nil {
		return fmt.Errorf("the %s: %w", name, err)
	}
	return nil
}

// GetJSON reads a JSON document into v. The error is [ErrNotFound] if the document
// does not exist, and a [Temporary] if a later attempt may succeed.
func (c *Client) GetJSON(ctx context.Context, address string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("the address cannot be parsed: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	status, header, body, err := c.Do(req)
	switch {
	case err != nil:
		return err
	// Servers answer 401, 403 or 405 for documents that do not exist, too.
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return ErrNotFound
	case status != http.StatusOK:
		return &Temporary{Err: fmt.Errorf("%s answered HTTP %d", Redacted(req.URL), status)}
	case json.Unmarshal(body, v) != nil:
		if kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); kind == "application/json" {
			return fmt.Errorf("the JSON document at %s cannot be parsed", Redacted(req.URL))
		}
		return ErrNotFound // an HTML page, which many sites serve at every path
	}
	return nil
}

// Do makes one request and reads the whole answer. A status of 429 or 5xx is a
// [Temporary] error. Errors do not hold the query of the URL.
func (c *Client) Do(req *http.Request) (status int, header http.Header, body []byte, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		err = fmt.Errorf("%s: %w", req.URL.Host, withoutURL(err))
		if isPermanent(err) {
			return 0, nil, nil, err
		}
		return 0, nil, nil, &Temporary{Err: err}
	}
	defer resp.Body.Close()
	// One byte more than the limit shows whether the answer is longer.
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxDocumentBytes+1))
	switch {
	case err != nil:
		return 0, nil, nil, &Temporary{Err: fmt.Errorf("%s: the answer ended early: %w", req.URL.Host, err)}
	case len(body) > maxDocumentBytes:
		return 0, nil, nil, fmt.Errorf("%s: the answer is longer than %d bytes", req.URL.Host, maxDocumentBytes)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
		return resp.StatusCode, nil, nil, &Temporary{RetryAfter: retryAfter(resp.Header), Err: fmt.Errorf("%s answered HTTP %d", req.URL.Host, resp.StatusCode)}
	}
	return resp.StatusCode, resp.Header, body, nil
}

// Probe sends a JSON-RPC ping without a token to the MCP endpoint and returns the
// headers of the answer, which hold the server's challenge. The ping holds no
// secret, so redirects within the origin are followed.
func (c *Client) Probe(ctx context.Context) (http.Header, error) {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, sameOriginKey{}, true), http.MethodPost, c.server.String(),
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	_ = resp.Body.Close()
	return resp.Header, nil
}

// withoutURL removes the wrapping of net/http, which quotes the whole URL and with
// it what the query holds.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// Origin returns the scheme and authority of a URL (RFC 6454).
func Origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && HostPort(a) == HostPort(b) }

// HostPort returns host:port of a URL in lower case. The port defaults to that of
// the scheme.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// Redacted returns a URL without user, query and fragment, which may hold
// secrets. It is fit for errors and logs.
func Redacted(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.ForceQuery, v.Fragment, v.RawFragment = nil, "", false, "", ""
	return v.String()
}

// IsLoopback reports whether a host is "localhost" or a loopback address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Temporary is an error that may go away by itself: a server that is down, slow or
// overloaded.
type Temporary struct {
	// Err is the failure.
	Err error
	// RetryAfter is how long to wait before the next attempt; 0 if unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (t *Temporary) Error() string { return t.Err.Error() }

// Unwrap returns what failed.
func (t *Temporary) Unwrap() error { return t.Err }

// IsTemporary reports whether err holds a [Temporary], and how long to wait
// before the next attempt.
func IsTemporary(err error) (retryAfter time.Duration, ok bool) {
	var t *Temporary
	if errors.As(err, &t) {
		return t.RetryAfter, true
	}
	return 0, false
}

// ErrNotFound is the error of [Client.GetJSON] when the document does not exist.
var ErrNotFound = errors.New("not found")

// errRedirectRefused is the error of a redirected POST: it carries secrets, which
// must not be sent on to another address.
var errRedirectRefused = errors.New("the answer is a redirect, which is not followed because the request holds secrets")

// blockedError is the error of a request that the checks of this package blocked. It is
// permanent.
type blockedError struct{ err error }

func (b *blockedError) Error() string { return b.err.Error() }
func (b *blockedError) Unwrap() error { return b.err }

// isPermanent reports whether an error of a request stays the same on every
// attempt: the request was blocked, or the peer is not the server it claims to
// be. Every other failure on the way to a server counts as temporary.
func isPermanent(err error) bool {
	var blocked *blockedError
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.As(err, &blocked) || errors.As(err, &certificate) || errors.As(err, &plain) || errors.Is(err, http.ErrSchemeMismatch)
}

// maxRetryAfter bounds the pause that a server may ask for.
const maxRetryAfter = 10 * time.Minute

// retryAfter reads Retry-After as a number of seconds (RFC 9110, section 10.2.3).
// It returns 0 for a date or for anything else.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
}
